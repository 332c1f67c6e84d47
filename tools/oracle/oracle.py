"""The operators of docs/operators.md in NumPy, float64, written from that page alone.

It exists to be compared with (compare.py); nothing of the library is used or read here. Section numbers are those of the page.
Forward functions return arrays with the shapes of section 1. Sums that are compared with a tolerance are `Sum` objects:
the value together with what bounds its rounding error (section 8: terms, sum of magnitudes, share of the interpolation).
"""
from types import SimpleNamespace

import numpy as np

from sampling import reflect, reflect_slope, grid, patch, inside, as_heads, queries, Sum, Read  # noqa: F401 (some are for compare.py)

DEFAULTS = dict(ws=9, wt=0, ps=1, dilation=1, k=1, heads=1, stride0=1, stride1=1.0, dist="l2", interp="bilinear",
                border="reflect", window="slide", anchor="none", exclude="none", topk="all", wr=1)


def params(**changes):
    unknown = set(changes) - set(DEFAULTS)
    if unknown:
        raise KeyError(unknown)
    return SimpleNamespace(**{**DEFAULTS, **changes})


# ---- section 2: where the candidates are ----

def frames(t, T, wt):
    shift = min(0, t - wt) + max(0, t + wt - (T - 1))
    tmax = min(T - 1, t + wt - shift)
    return [t + s if t + s <= tmax else tmax - s for s in range(2 * wt + 1)]


def window_offset(a, L, ws, s1, window):
    """o of section 2: the window cell that lies on the centre a"""
    a = np.asarray(a, np.float64)
    o = np.full(a.shape, float((ws - 1) // 2))
    if window == "slide":
        o = np.where(a - s1 * o < 0, np.floor(a / s1), o)
        o = np.where(a + s1 * ((ws - 1) - o) > L - 1, np.ceil((a - (L - 1)) / s1 + (ws - 1)), o)
    return o


def places(P, q, ws, T, H, W, frame, cy, cx, shifted):
    """All candidates of N queries around S centres each: frame, cy, cx [N,S], centres before reflection; arrays [N, S*ws*ws].
    `shifted` [S]: whether the centre may move (a gradient reaches it)."""
    N, S = frame.shape
    cells = np.arange(ws)
    ay, ax = reflect(cy, H), reflect(cx, W)
    oy, ox = window_offset(ay, H, ws, P.stride1, P.window), window_offset(ax, W, ws, P.stride1, P.window)
    py = ay[..., None] + P.stride1 * (cells - oy[..., None])    # [N,S,ws]
    px = ax[..., None] + P.stride1 * (cells - ox[..., None])
    full = (N, S, ws, ws)
    flat = lambda v: np.broadcast_to(v, full).reshape(N, S * ws * ws)
    return SimpleNamespace(
        S=S, ws=ws, M=S * ws * ws, frame=flat(frame[..., None, None]), y=flat(py[..., :, None]), x=flat(px[..., None, :]),
        valid=flat((inside(py, H)[..., :, None] & inside(px, W)[..., None, :])).copy(),
        slot=np.repeat(np.arange(S), ws * ws), centre_cell=(oy.astype(int) * ws + ox.astype(int)) + np.arange(S) * ws * ws,
        slope_y=reflect_slope(cy, H) * shifted, slope_x=reflect_slope(cx, W) * shifted,
        dt=flat((frame - q.t[:, None])[..., None, None]), dy=flat(py[..., :, None]) - q.y[:, None], dx=flat(px[..., None, :]) - q.x[:, None])


def search_places(P, q, T, H, W, flow):
    Wt = 2 * P.wt + 1
    slots = np.array([frames(t, T, P.wt) for t in range(T)])    # [T,Wt]
    shift = np.zeros((q.n, Wt, 2))
    shifted = np.zeros(Wt, bool)
    finite = np.ones((q.n, Wt), bool)
    S = 0 if flow is None else flow.shape[-4]
    if S:
        f = np.asarray(flow, np.float64)
        f = f if f.ndim == 7 else np.broadcast_to(f[:, None], (f.shape[0], P.heads) + f.shape[1:])
        f = np.moveaxis(f, 3, 5).reshape(q.n, S, 2)             # [B,heads,T,nH,nW,S,2], rows as the queries
        if P.interp == "nearest":
            f = np.rint(f)
        first = Wt - S                                          # S = W_t-1: slot 0 is not shifted
        shifted[first:] = True
        finite[:, first:] = np.isfinite(f).all(-1)
        shift[:, first:] = np.where(finite[:, first:, None], f, 0.0)
    c = places(P, q, P.ws, T, H, W, slots[q.t], q.y[:, None] + shift[..., 1], q.x[:, None] + shift[..., 0], shifted)
    c.valid &= finite[:, c.slot]
    return c


def refine_places(P, q, T, H, W, given):
    g = np.asarray(given, np.float64).reshape(q.n, given.shape[-2], 3)
    move = np.rint(g[..., 1:]) if P.interp == "nearest" else g[..., 1:]
    frame = reflect(q.t[:, None] + np.rint(g[..., 0]), T).astype(np.int64)
    return places(P, q, P.wr, T, H, W, frame, q.y[:, None] + move[..., 0], q.x[:, None] + move[..., 1], np.ones(g.shape[1], bool))


# ---- section 2: distances ----

def patch_pixels(P, q, n, H, W, cy, cx):
    """For every patch pixel: which of the pairs (query n, place (cy,cx)) have it; query pixel; key place; its reflection slopes"""
    for i in patch(P):
        for j in patch(P):
            qy, qx, zy, zx = q.y[n] + i, q.x[n] + j, cy + i, cx + j
            on = np.ones(len(n), bool)
            if P.border == "drop":
                on = inside(qy, H) & inside(qx, W) & inside(zy, H) & inside(zx, W)
            on = np.flatnonzero(on)
            yield (on, reflect(qy[on], H).astype(np.int64), reflect(qx[on], W).astype(np.int64), reflect(zy[on], H), reflect(zx[on], W),
                   reflect_slope(zy[on], H), reflect_slope(zx[on], W))


def distances(P, Q, K, q, n, frame, cy, cx):
    """Distance of M pairs, and the bound of section 8 in two parts: (terms, size, blur, blur2) with
    tolerance = (terms+2) eps size + eps blur + eps^2 blur2"""
    H, W = Q.shape[2:4]
    d, size, blur, blur2, terms = (np.zeros(len(n)) for _ in range(5))
    for on, qy, qx, zy, zx, _, _ in patch_pixels(P, q, n, H, W, cy, cx):
        m = n[on]
        a = Q[q.b[m], q.t[m], qy, qx, q.h[m]]
        r = Read(K, q.b[m], frame[on], q.h[m], zy, zx)
        split = ((zy != np.floor(zy)) | (zx != np.floor(zx)))[:, None]
        if P.dist == "l2":
            term, soft = (a - r.value) ** 2, 6 * 2 * np.abs(a - r.value) * r.A
            blur2[on] += np.where(split, (6 * r.A) ** 2, 0).sum(1)
        else:
            term, soft = a * r.value, 6 * np.abs(a) * r.A
        d[on] += term.sum(1)
        size[on] += np.abs(term).sum(1)
        blur[on] += np.where(split, soft, 0).sum(1)
        terms[on] += term.shape[1]
    return d, SimpleNamespace(terms=terms, size=size, blur=blur, blur2=blur2)


def tolerance(b, eps):
    return (b.terms + 2) * eps * b.size + eps * b.blur + eps * eps * b.blur2


def all_distances(P, Q, K, q, c):
    """Distances and bounds of every geometrically valid candidate, [N,M]; NaN elsewhere"""
    n, m = np.nonzero(c.valid)
    d, b = distances(P, Q, K, q, n, c.frame[n, m], c.y[n, m], c.x[n, m])
    full = np.full((q.n, c.M), np.nan)
    full[n, m] = d
    bounds = SimpleNamespace(**{name: np.zeros((q.n, c.M)) for name in vars(b)})
    for name, v in vars(b).items():
        getattr(bounds, name)[n, m] = v
    return full, bounds


# ---- section 2: selection ----

def nearest_self(c, i):
    """Candidate of query i nearest the query itself (slot 0, valid, lower raster index on a tie), or None"""
    on = np.flatnonzero(c.valid[i] & (c.slot == 0))
    return on[np.argmin(c.dy[i, on] ** 2 + c.dx[i, on] ** 2)] if len(on) else None


def plan(P, c, d, i, refine=False):
    """For query i the groups of output places, each (places, anchors in order, pool of the other candidates)"""
    usable = c.valid[i] & ~np.isnan(d[i])
    if refine:
        return [(P.k, [], np.flatnonzero(usable))]
    Wt = c.S
    if P.exclude == "frame":
        usable &= c.slot != 0
    me = nearest_self(c, i)
    if P.exclude == "self" and me is not None:
        usable[me] = False
    if P.anchor == "self":
        wanted = [me] if me is not None else []
    elif P.anchor == "each":
        wanted = list(c.centre_cell[i])
    else:
        wanted = []
    anchors = [m for m in wanted if usable[m]]
    rest = usable.copy()
    rest[anchors] = False
    if P.topk == "all":
        return [(P.k, anchors, np.flatnonzero(rest))]
    return [(P.k, [m for m in anchors if c.slot[m] == s], np.flatnonzero(rest & (c.slot == s))) for s in range(Wt)]


def select(P, c, d, refine=False, stored=np.float64):
    """Candidate number of every output place, -1 = none, [N,K]"""
    key = d.astype(stored).astype(np.float64) * (1 if P.dist == "l2" else -1)
    out = []
    for i in range(len(d)):
        row = []
        for count, anchors, pool in plan(P, c, d, i, refine):
            chosen = (list(anchors) + list(pool[np.argsort(key[i, pool], kind="stable")]))[:count]
            row += chosen + [-1] * (count - len(chosen))
        out.append(row)
    return np.array(out, np.int64).reshape(len(d), -1)


def pick(P, q, c, d, index):
    """dist [.., K] and offset [.., K, 3] of the chosen candidates"""
    i, on = np.arange(q.n)[:, None], index >= 0
    dist = np.where(on, d[i, index], np.inf if P.dist == "l2" else -np.inf)
    offset = np.where(on[..., None], np.stack([c.dt[i, index], c.dy[i, index], c.dx[i, index]], -1), 0.0)
    return dist.reshape(q.shape + (-1,)), offset.reshape(q.shape + (-1, 3))


class Search:
    """search(query, key, flow): .dist .offset .index; .all() is search_all; .grad(...) at given candidates"""
    is_refine = False

    def __init__(self, P, query, key, flow=None):
        self.setup(P, query, key)
        self.flow = flow
        self.c = search_places(P, self.q, *self.Q.shape[1:4], flow)

    def setup(self, P, query, key):
        B, T, H, W, C = query.shape
        assert key.shape == query.shape and C % P.heads == 0
        self.P, self.q = P, queries(B, P.heads, T, H, W, P.stride0)
        self.Q, self.K = as_heads(query, P.heads), as_heads(key, P.heads)

    def run(self, stored=np.float64):
        self.d, self.bounds = all_distances(self.P, self.Q, self.K, self.q, self.c)
        self.index = select(self.P, self.c, self.d, self.is_refine, stored)
        self.dist, self.offset = pick(self.P, self.q, self.c, self.d, self.index)
        return self

    def all(self):
        """Every candidate in raster order; the excluded and the invalid as places without neighbour"""
        P = SimpleNamespace(**{**vars(self.P), "k": 1, "anchor": "none", "topk": "all"})
        index = np.full((self.q.n, self.c.M), -1)
        for i in range(self.q.n):
            pool = plan(P, self.c, self.d, i)[0][2]
            index[i, pool] = pool
        return pick(P, self.q, self.c, self.d, index)

    def grad(self, index, gd, go=None):
        """Section 6 at the candidates `index` [N,K]: Sums for query, key and the centres [N,S,2] as (y, x)"""
        P, Q, K, q, c = self.P, self.Q, self.K, self.q, self.c
        H, W = Q.shape[2:4]
        n, k = np.nonzero(index >= 0)
        m = index[n, k]
        g = np.asarray(gd, np.float64).reshape(index.shape)[n, k] if gd is not None else np.zeros(len(n))
        slot = c.slot[m]
        cs = c.slope_y[n, slot], c.slope_x[n, slot]
        dQ, dK, dc = Sum(Q.shape), Sum(K.shape), Sum((q.n, c.S, 2))
        for on, qy, qx, zy, zx, sy, sx in patch_pixels(P, q, n, H, W, c.y[n, m], c.x[n, m]):
            i = n[on]
            a = Q[q.b[i], q.t[i], qy, qx, q.h[i]]
            r = Read(K, q.b[i], c.frame[n, m][on], q.h[i], zy, zx)
            gi = g[on][:, None]
            if P.dist == "l2":                                  # dq = 2g(q-k), dk = -dq
                dq, dk, soft = 2 * gi * (a - r.value), -2 * gi * (a - r.value), 12 * np.abs(gi) * r.A
            else:
                dq, dk, soft = gi * r.value, gi * a, 0 * gi * r.A
            dQ.add((q.b[i], q.t[i], qy, qx, q.h[i]), dq, 12 * np.abs(gi) * r.A)
            r.scatter(dK, dk, soft + 6 * np.abs(dk))
            for axis, (slope, sign) in enumerate(((r.slope_y, sy * cs[0][on]), (r.slope_x, sx * cs[1][on]))):
                v, size = slope()
                live = sign != 0                                # L = 1, unshifted slots
                dc.add((i[live], slot[on][live], np.full(live.sum(), axis)), (sign * np.sum(dk * v, 1))[live],
                       np.sum((soft + 6 * np.abs(dk)) * size, 1)[live], np.sum(np.abs(dk) * size, 1)[live], float(a.shape[1]))
        if go is not None:
            go = np.asarray(go, np.float64).reshape(index.shape + (3,))[n, k]
            for axis in (0, 1):
                dc.add((n, slot, np.full(len(n), axis)), cs[axis] * go[:, 1 + axis])
        return dQ.done(), dK.done(), dc.done()

    def flow_grad(self, dc):
        """Centre gradients (a Sum) -> Sum shaped like the flow, (x,y)"""
        S, Wt = self.flow.shape[-4], self.c.S
        out = Sum(self.flow.shape)
        for name in Sum.PARTS:
            v = getattr(dc, name)[:, Wt - S:, ::-1].reshape(self.q.shape + (S, 2))          # [B,heads,T,nH,nW,S,2]
            v = np.moveaxis(v, 5, 3)
            setattr(out, name, (v if self.flow.ndim == 7 else v.sum(1)).ravel())
        return out.done()


class Refine(Search):
    is_refine = True

    def __init__(self, P, query, key, given):
        self.setup(P, query, key)
        self.given = given
        self.c = refine_places(P, self.q, *self.Q.shape[1:4], given)

    def given_grad(self, dc):
        """Centre gradients -> Sum shaped like the given offsets; dt has none"""
        out = Sum(self.given.shape)
        for name in Sum.PARTS:
            v = np.zeros(self.given.shape)
            v[..., 1:] = getattr(dc, name).reshape(self.given.shape[:-1] + (2,))
            setattr(out, name, v.ravel())
        return out.done()


# ---- section 3: flow composition ----

def mirrored_taps(x, L):
    low = np.floor(x)
    return reflect(low, L).astype(np.int64), reflect(low + 1, L).astype(np.int64), x - low


class FlowRead:
    """F [H,W,2] at real places, taps mirrored. Written as lerp, so that a constant field gives exactly its value.
    The slopes at an integer strictly inside a descending branch of the wave have two readings: the difference of the mirrored taps
    (rule "mirrored"), or section 6's rule for searches, right-sided at the reflected position times -1 (rule "reflected")."""

    def __init__(self, F, y, x, rule="mirrored"):
        H, W = F.shape[:2]
        y0, y1, self.fy = mirrored_taps(y, H)
        x0, x1, self.fx = mirrored_taps(x, W)
        self.at = [(y0, x0), (y0, x1), (y1, x0), (y1, x1)]
        a, b, c, d = (F[i] for i in self.at)
        fy, fx = self.fy[..., None], self.fx[..., None]
        top, bottom = a + fx * (b - a), c + fx * (d - c)
        self.value = top + fy * (bottom - top)
        self.slope_y, self.slope_x = bottom - top, (b - a) + fy * ((d - c) - (b - a))
        self.size = np.abs(np.stack([a, b, c, d])).sum(0)       # of what the slopes are differences of
        if rule == "reflected":
            at = FlowRead(F, reflect(y, H), reflect(x, W))
            self.slope_y, self.slope_x = at.slope_y * reflect_slope(y, H)[..., None], at.slope_x * reflect_slope(x, W)[..., None]

    def weights(self):
        fy, fx = self.fy, self.fx
        return [(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx]


def chains(T, wt, t):
    """The two runs of slots of query time t: [(slot, flow name, flow frame), ...] in the order walked"""
    fr = frames(t, T, wt)
    ahead = [(s, "f", fr[s] - 1) for s in range(1, len(fr)) if fr[s] > t]
    back = [(s, "b", fr[s] + 1) for s in range(1, len(fr)) if fr[s] < t]
    return ahead, back


def compose(fflow, bflow, wt, stride0, gout=None, rule="mirrored"):
    """[B,T,2wt,nH,nW,2]; with gout also the Sums for fflow and bflow, and how far off (pixels) a place may be by rounding"""
    F = dict(f=np.asarray(fflow, np.float64), b=np.asarray(bflow, np.float64))
    B, T, H, W, _ = fflow.shape
    y0, x0 = (v.astype(np.float64) for v in np.meshgrid(grid(H, stride0), grid(W, stride0), indexing="ij"))
    out = np.zeros((B, T, 2 * wt) + y0.shape + (2,))
    dF, worst = dict(f=Sum(F["f"].shape), b=Sum(F["b"].shape)), 0.0
    for b in range(B):
        for t in range(T):
            for chain in chains(T, wt, t):
                y, x, walked, err = y0, x0, [], 0.0             # err: of the place, in 2^-52
                for s, name, frame in chain:
                    r = FlowRead(F[name][b, frame], y, x, rule)
                    x, y = x + r.value[..., 0], y + r.value[..., 1]
                    out[b, t, s - 1] = np.stack([x - x0, y - y0], -1)
                    worst = max(worst, 2.0 ** -52 * np.max(err))
                    walked.append((s, name, frame, r, err + np.abs(x) + np.abs(y)))
                    err = err * (1 + r.size.sum(-1)) + np.abs(x) + np.abs(y) + r.size.sum(-1)
                if gout is None:
                    continue
                adj, mag = np.zeros(y0.shape + (2,)), np.zeros(y0.shape + (2,))             # (x, y)
                for s, name, frame, r, off in reversed(walked):
                    adj, mag = adj + gout[b, t, s - 1], mag + np.abs(gout[b, t, s - 1])
                    for (ty, tx), w in zip(r.at, r.weights()):
                        where = (np.full(ty.shape, b), np.full(ty.shape, frame), ty, tx)
                        dF[name].add(where, w[..., None] * adj, 8 * w[..., None] * mag, w[..., None] * mag, drift=8 * off[..., None] * mag)
                    jx, jy = (adj * r.slope_x).sum(-1), (adj * r.slope_y).sum(-1)
                    mj = (mag * r.size).sum(-1)
                    adj, mag = adj + np.stack([jx, jy], -1), mag + 4 * mj[..., None]
    if gout is None:
        return out
    return out, dF["f"].done(), dF["b"].done(), worst


# ---- section 4: weights ----

def weights(dist, kind="l2", scale=10.0):
    d = np.asarray(dist, np.float64)
    ok = np.isfinite(d)
    s = np.where(ok, scale * (-d if kind == "l2" else d), -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.where(ok, np.exp(np.where(ok, s - np.where(np.isfinite(top), top, 0), 0)), 0.0)
    total = e.sum(-1, keepdims=True)
    return np.where(total > 0, e / np.where(total > 0, total, 1), 0.0)


def weights_grad(dist, gw, kind="l2", scale=10.0):
    w = weights(dist, kind, scale)
    mean = (w * gw).sum(-1, keepdims=True)
    return (-scale if kind == "l2" else scale) * w * (gw - mean)


# ---- section 5: aggregation ----

def coverage(P, H, W):
    """c(y): how many query patches cover each pixel, [H,W]"""
    def along(L):
        c = np.zeros(L)
        for y in grid(L, P.stride0):
            for i in patch(P):
                if 0 <= y + i < L:
                    c[y + i] += 1
        return c
    return along(H)[:, None] * along(W)[None, :]


class Gather:
    """gather_add, gather, scatter_add and their gradients for one set of offsets"""

    def __init__(self, P, video_shape, offset):
        B, T, H, W, C = video_shape
        self.P, self.shape = P, (B, T, H, W, P.heads, C // P.heads)
        self.q = queries(B, P.heads, T, H, W, P.stride0)
        self.K = offset.shape[-2]
        off = np.asarray(offset, np.float64).reshape(self.q.n, self.K, 3)
        move = np.rint(off[..., 1:]) if P.interp == "nearest" else off[..., 1:]
        self.frame = reflect(self.q.t[:, None] + np.rint(off[..., 0]), T).astype(np.int64)
        self.ny, self.nx = self.q.y[:, None] + move[..., 0], self.q.x[:, None] + move[..., 1]
        c = coverage(P, H, W)
        self.covered = c > 0
        self.inv = np.where(self.covered, 1 / np.where(self.covered, c, 1), 0.0)

    def pixels(self):
        """Every patch pixel of every (query, neighbour): n, k, destination, source place, slopes of its reflections (y, x)"""
        H, W = self.shape[2:4]
        q = self.q
        n, k = (v.ravel() for v in np.meshgrid(np.arange(q.n), np.arange(self.K), indexing="ij"))
        cy, cx = reflect(self.ny[n, k], H), reflect(self.nx[n, k], W)
        slope_y, slope_x = reflect_slope(self.ny[n, k], H), reflect_slope(self.nx[n, k], W)
        for i in patch(self.P):
            for j in patch(self.P):
                dy, dx, zy, zx = q.y[n] + i, q.x[n] + j, cy + i, cx + j
                on = inside(dy, H) & inside(dx, W)
                if self.P.border == "drop":
                    on &= inside(zy, H) & inside(zx, W)
                yield (n[on], k[on], dy[on], dx[on], reflect(zy[on], H), reflect(zx[on], W),
                       slope_y[on] * reflect_slope(zy[on], H), slope_x[on] * reflect_slope(zx[on], W))

    def source(self, V, n, k, zy, zx):
        return Read(V, self.q.b[n], self.frame[n, k], self.q.h[n], zy, zx)

    def gather(self, value, weight, stack=False):
        """Sum [B,T,H,W,heads,F], or stacked [B,heads,K,T,H,W,F]"""
        B, T, H, W, h, F = self.shape
        q, V, w = self.q, as_heads(value, h), np.asarray(weight, np.float64).reshape(self.q.n, self.K)
        out = Sum((B, h, self.K, T, H, W, F) if stack else self.shape)
        for n, k, dy, dx, zy, zx, _, _ in self.pixels():
            r, wk = self.source(V, n, k, zy, zx), w[n, k][:, None]
            where = (q.b[n], q.h[n], k, q.t[n], dy, dx) if stack else (q.b[n], q.t[n], dy, dx, q.h[n])
            out.add(where, wk * r.value, 8 * np.abs(wk) * r.A)
        return out.done(self.inv[:, :, None] if stack else self.inv[:, :, None, None])

    def gather_grad(self, value, weight, gout, stack=False):
        """Sums for value [B,T,H,W,heads,F], weight [N,K], offset [N,K,3]"""
        B, T, H, W, h, F = self.shape
        q, V, w = self.q, as_heads(value, h), np.asarray(weight, np.float64).reshape(self.q.n, self.K)
        G = np.asarray(gout, np.float64) if stack else as_heads(gout, h)
        dV, dw, do = Sum(self.shape), Sum((q.n, self.K)), Sum((q.n, self.K, 3))
        for n, k, dy, dx, zy, zx, sy, sx in self.pixels():
            r, wk = self.source(V, n, k, zy, zx), w[n, k]
            g = G[q.b[n], q.h[n], k, q.t[n], dy, dx] if stack else G[q.b[n], q.t[n], dy, dx, q.h[n]]
            g = g * self.inv[dy, dx][:, None]
            self.chain(r, n, k, wk, g, sy, sx, dw, do)
            r.scatter(dV, wk[:, None] * g, 8 * np.abs(wk[:, None] * g))
        return dV.done(), dw.done(), do.done()

    def chain(self, r, n, k, wk, g, sy, sx, dw, do):
        """dw += G.V(z), d off += w G.dV(z)"""
        F = float(g.shape[1])
        dw.add((n, k), (g * r.value).sum(1), 8 * (np.abs(g) * r.A).sum(1), np.abs(g * r.value).sum(1), F)
        for axis, (slope, sign) in enumerate(((r.slope_y, sy), (r.slope_x, sx)), 1):
            v, size = slope()
            live = sign != 0
            part = np.abs(wk) * (np.abs(g) * size).sum(1)
            do.add((n[live], k[live], np.full(live.sum(), axis)), (sign * wk * (g * v).sum(1))[live], 8 * part[live], part[live], F)

    def scatter(self, value, weight):
        """The adjoint before normalisation: Sum [B,T,H,W,heads,F], and the weight that arrived, Sum [B,T,H,W,heads,1]"""
        q, Y, w = self.q, as_heads(value, self.shape[4]), np.asarray(weight, np.float64).reshape(self.q.n, self.K)
        out, total = Sum(self.shape), Sum(self.shape[:5] + (1,))
        for n, k, dy, dx, zy, zx, _, _ in self.pixels():
            r, wk = self.source(np.zeros(self.shape[:5] + (1,)), n, k, zy, zx), w[n, k][:, None]
            v = wk * Y[q.b[n], q.t[n], dy, dx, q.h[n]]
            r.scatter(out, v, 8 * np.abs(v))
            r.scatter(total, wk, 8 * np.abs(wk))
        return out.done(), total.done()

    def scatter_grad(self, value, weight, gout, gtotal=None):
        """out(tap) += w tapweight Y(dest): dY = w G(z), dw = Y.G(z) + Gtotal(z), d off = w (Y.dG(z) + dGtotal(z))"""
        q, h = self.q, self.shape[4]
        Y, w, G = as_heads(value, h), np.asarray(weight, np.float64).reshape(self.q.n, self.K), as_heads(gout, h)
        extra = np.zeros(self.shape[:5] + (1,)) if gtotal is None else np.asarray(gtotal, np.float64)[..., None]
        G1 = np.concatenate([G, extra], -1)                     # the accumulated weight is one more channel, of value 1
        dY, dw, do = Sum(self.shape), Sum((q.n, self.K)), Sum((q.n, self.K, 3))
        for n, k, dy, dx, zy, zx, sy, sx in self.pixels():
            r, wk = self.source(G1, n, k, zy, zx), w[n, k]
            y1 = np.concatenate([Y[q.b[n], q.t[n], dy, dx, q.h[n]], np.ones((len(n), 1))], 1)
            dY.add((q.b[n], q.t[n], dy, dx, q.h[n]), wk[:, None] * r.value[:, :-1], 8 * np.abs(wk[:, None]) * r.A[:, :-1])
            self.chain(r, n, k, wk, y1, sy, sx, dw, do)
        return dY.done(), dw.done(), do.done()
