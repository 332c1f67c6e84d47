"""Checks of oracle.py itself: the page's worked numbers, identities of section 8, and central differences of every gradient."""
import numpy as np

import oracle as o


def close(a, b, tol=1e-9):
    a, b = np.asarray(a, float), np.asarray(b, float)
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.allclose(a, b, rtol=tol, atol=tol), f"largest difference {np.abs(a - b).max()}"


def frame_order():
    assert [o.frames(t, 5, 1) for t in range(5)] == [[0, 1, 2], [1, 2, 0], [2, 3, 1], [3, 4, 2], [4, 3, 2]]
    for wt in range(6):
        for T in range(2 * wt + 1, 14):
            for t in range(T):
                f = o.frames(t, T, wt)
                assert f[0] == t and len(set(f)) == 2 * wt + 1 and min(f) >= 0 and max(f) < T
                assert max(f) - min(f) == 2 * wt                # contiguous


def reflection():
    for L in range(1, 9):
        for x in range(-40, 41):
            y, down = x, False
            while L > 1 and not 0 <= y <= L - 1:
                y, down = (-y, not down) if y < 0 else (2 * (L - 1) - y, not down)
            assert o.reflect(x, L) == (0 if L == 1 else y)
            if L > 1 and 0 < y < L - 1:
                assert o.reflect_slope(x, L) == (-1 if down else 1)
            elif L > 1:
                assert o.reflect_slope(x, L) == 1
    assert o.reflect_slope(-1e-30, 5) == -1 and o.reflect_slope(4.0, 5) == 1 and o.reflect_slope(0.0, 1) == 0


def cells(a, L, ws, s1):
    return a + s1 * (np.arange(ws) - float(o.window_offset(a, L, ws, s1, "slide")))


def windows():
    close(cells(0, 10, 5, 1), [0, 1, 2, 3, 4])
    close(cells(4, 10, 5, 1), [2, 3, 4, 5, 6])
    close(cells(8, 10, 5, 1), [5, 6, 7, 8, 9])
    close(cells(4, 10, 4, 1), [3, 4, 5, 6])
    close(cells(0.7, 10, 5, 0.5), [0.2, 0.7, 1.2, 1.7, 2.2])
    close(cells(0.5, 10, 10, 1), np.arange(10) - 0.5)
    for L in range(1, 25):
        for ws in range(1, 10):
            for s1 in (1, 2, 0.5, 0.25, 1.1):
                for a in np.arange(0, L - 1 + 1e-9, 0.125):
                    c = cells(a, L, ws, s1)
                    assert np.abs(c - a).min() < 1e-12          # aligned to the centre
                    room = np.floor(a / s1 + 1e-9) + np.floor((L - 1 - a) / s1 + 1e-9) + 1
                    if room >= ws:                              # fits: wholly inside
                        assert c[0] > -1e-9 and c[-1] < L - 1 + 1e-9, (L, ws, s1, a)


def draw(rng, P, shape, **kw):
    return o.Search(P, rng.normal(size=shape), rng.normal(size=shape), **kw).run()


def selection():
    rng = np.random.default_rng(5)
    P = o.params(ws=3, wt=1, ps=2, k=6, heads=2, stride0=2, stride1=0.5)
    flow = rng.normal(size=(1, 4, 2, 3, 2, 2)) * 3
    q, k = rng.normal(size=(2, 1, 4, 5, 4, 6))
    s = o.Search(P, q, k, flow).run()
    assert (np.diff(s.dist, axis=-1) >= 0).all()
    full, off = s.all()
    close(np.sort(full, -1)[..., :6], s.dist)
    r = o.Refine(o.params(wr=1, ps=2, k=6, heads=2, stride0=2), q, k, s.offset).run()       # re-ranks to itself
    close(r.dist, s.dist)
    close(r.offset, s.offset)
    P.topk = "each"
    each = o.Search(P, q, k, flow).run()
    assert each.dist.shape[-1] == 18
    pair = o.params(ws=3, ps=2, k=6, heads=2, stride0=2, stride1=0.5)                       # slot 1 of t = 1 is frame 2
    one = o.Search(pair, q[:, 1:2], k[:, 2:3], flow[:, 1:2, 0:1]).run()
    close(one.dist[:, :, 0], each.dist[:, :, 1, ..., 6:12])
    for topk, first in (("all", slice(0, 3)), ("each", slice(0, None, 6))):
        P.topk, P.anchor = topk, "each"
        a = o.Search(P, q, k, flow).run()
        c = a.c
        assert (a.index[:, first] == c.centre_cell).all()       # the flow target is always inside
        i = np.arange(a.q.n)[:, None]
        close(c.y[i, c.centre_cell[:, 1:]], o.reflect(a.q.y[:, None] + np.moveaxis(np.broadcast_to(flow[:, None, ..., 1], (1, 2, 4, 2, 3, 2)), 3, 5).reshape(-1, 2), 5))
    P = o.params(ws=3, anchor="self", k=3)
    a = draw(rng, P, (1, 1, 4, 4, 1))
    assert not a.offset[..., 0, :].any()
    P = o.params(ws=3, exclude="self", k=9)
    a = draw(rng, P, (1, 1, 4, 4, 1))
    assert np.isinf(a.dist[..., 8]).all() and a.offset[..., :8, :].any(-1).all()
    P = o.params(ws=3, exclude="frame", k=9)
    assert np.isinf(draw(rng, P, (1, 1, 4, 4, 1)).dist).all()
    P = o.params(ws=2, k=5)                                     # NaN is invalid, and harmless under weight 0
    v = np.zeros((1, 1, 2, 3, 1))
    v[0, 0, 1, 1] = np.nan
    a = o.Search(P, np.zeros_like(v), v).run()
    assert (np.isfinite(a.dist).sum(-1) == 3).all()


def shifted_key():
    rng = np.random.default_rng(6)
    big = rng.normal(size=(1, 1, 20, 20, 3))
    q, k = big[:, :, 4:16, 4:16], big[:, :, 2:14, 5:17]         # k[y+2, x-1] = q[y, x]
    flow = np.broadcast_to(np.array([-2.0, 3.0]), (1, 1, 1, 12, 12, 2))
    s = o.Search(o.params(ws=3, ps=3), q, k, flow).run()
    assert (s.offset[0, 0, 0, 2:8, 3:8, 0] == [0, 2, -1]).all() and (s.dist[0, 0, 0, 2:8, 3:8] == 0).all()
    for interp in ("bilinear", "nearest"):
        P = o.params(ws=4, ps=2, k=5, stride1=2.0, interp=interp)
        f = np.random.default_rng(7).integers(-30, 30, (1, 1, 1, 12, 12, 2))
        a = o.Search(P, q, k, f).run()
        close(a.dist, o.Search(o.params(ws=4, ps=2, k=5, stride1=2.0), q, k, f).run().dist)
    ramp = np.arange(16.0)[None, None, None, :, None] * np.ones((1, 1, 16, 1, 1))
    s = o.Search(o.params(ws=9, ps=1, stride1=0.25), ramp, ramp + 0.75).run()
    assert (s.offset[0, 0, 0, :, 4:12, 0, 2] == -0.75).all()


def composition():
    c = np.array([0.3, -1.7], np.float32).astype(float)
    field = np.broadcast_to(c, (1, 5, 4, 6, 2))
    out = o.compose(field, -field, 2, 2)
    for t in range(5):
        for s, fr in enumerate(o.frames(t, 5, 2)[1:]):
            assert np.abs(out[0, t, s] - (fr - t) * c).max() < 1e-14
    y, x = np.meshgrid(np.arange(40.0), np.arange(40.0), indexing="ij")
    aff = np.stack([0.01 * x, 0.02 * y], -1)[None, None].repeat(3, 1)                        # inside the frame: x -> 1.01 x
    out = o.compose(aff, aff, 1, 1)
    close(out[0, 0, 1, :35, :35, 0], x[:35, :35] * (1.01 ** 2 - 1))
    close(out[0, 0, 1, :35, :35, 1], y[:35, :35] * (1.02 ** 2 - 1))
    assert o.compose(field, field, 0, 1).shape == (1, 5, 0, 4, 6, 2)


def aggregation():
    rng = np.random.default_rng(8)
    for ps, stride0, dil, H, W in ((1, 1, 1, 3, 4), (2, 3, 1, 7, 7), (3, 2, 1, 5, 4), (5, 3, 1, 1, 7), (4, 2, 1, 6, 5), (2, 1, 3, 7, 5)):
        P = o.params(ps=ps, stride0=stride0, dilation=dil, heads=2)
        V = rng.normal(size=(1, 2, H, W, 4))
        zero = np.zeros(o.queries(1, 2, 2, H, W, stride0).shape + (3, 3))
        G = o.Gather(P, V.shape, zero)
        onehot = np.zeros(zero.shape[:-1])
        onehot[..., 1] = 1
        assert G.covered.all() == (stride0 - 1 <= (ps - 1) // 2) or dil > 1 or min(H, W) < 3
        close(G.gather(V, onehot).value, o.as_heads(V, 2) * G.covered[:, :, None, None])
        off = rng.normal(size=zero.shape) * 4
        w = rng.random(zero.shape[:-1])
        w /= w.sum(-1, keepdims=True)
        G = o.Gather(P, V.shape, off)
        close(G.gather(np.ones_like(V), w).value, np.ones(G.shape) * G.covered[:, :, None, None])
        close(G.gather(V, w, stack=True).value.sum(2).transpose(0, 2, 3, 4, 1, 5), G.gather(V, w).value)
        for border in ("reflect", "drop"):
            for interp in ("bilinear", "nearest"):
                P.border, P.interp = border, interp
                G = o.Gather(P, V.shape, off)
                c = o.coverage(P, H, W)[:, :, None, None]
                Y = rng.normal(size=V.shape)
                back, total = G.scatter(Y, w)
                close((G.gather(V, w).value * c * o.as_heads(Y, 2)).sum(), (o.as_heads(V, 2) * back.value).sum())
                close(total.value[..., 0], G.scatter(np.ones_like(V), w)[0].value[..., 0])


def softmax():
    d = np.array([[1.0, 2.0, np.inf], [np.inf] * 3, [1e30, 1e30, np.nan]])
    w = o.weights(d)
    close(w[0], np.array([1, np.exp(-10), 0]) / (1 + np.exp(-10)))
    close(w[1:], [[0, 0, 0], [0.5, 0.5, 0]])
    close(o.weights(np.array([[1.0, 2.0, -np.inf]]), "prod", 1), [np.array([1, np.e, 0]) / (1 + np.e)])


def central(f, x, g, where, h=1e-6):
    """Central differences of the scalar f at some elements of x, against the gradient g"""
    for i in where:
        keep = x.flat[i]
        x.flat[i] = keep + h
        up = f()
        x.flat[i] = keep - h
        down = f()
        x.flat[i] = keep
        slope = (up - down) / (2 * h)
        assert abs(slope - g.flat[i]) < 1e-6 * (1 + abs(slope)), f"element {i}: {slope} by differences, {g.flat[i]} by formula"


def some(rng, x, n=12):
    return rng.choice(x.size, min(n, x.size), replace=False)


def gradients():
    rng = np.random.default_rng(9)
    for case in range(16):
        pick = lambda *v: v[rng.integers(len(v))]
        T, H, W, heads, F, wt = 3, int(pick(1, 3, 5)), int(pick(4, 6)), int(pick(1, 2)), 2, int(pick(0, 1))
        both = int(pick(0, 1))
        S = 2 * wt + both
        P = o.params(ws=int(pick(2, 3)), wt=wt, ps=int(pick(1, 2, 3)), k=4, heads=heads, stride0=int(pick(1, 2)), stride1=pick(0.5, 1.1),
                     dilation=int(pick(1, 2)), dist=pick("l2", "prod"), border=pick("reflect", "drop"), window=pick("slide", "cut"), topk=pick("all", "each"))
        q, k = rng.normal(size=(2, 1, T, H, W, heads * F))
        shape = o.queries(1, heads, T, H, W, P.stride0).shape
        flow = rng.normal(size=((1, heads) if case % 2 else (1,)) + (T, S) + shape[3:] + (2,)) * 3

        def again(make, index, gd, go):                         # the same candidates at moved inputs
            s = make()
            d, off = s.q.shape, None
            s.d, s.bounds = o.all_distances(s.P, s.Q, s.K, s.q, s.c)
            d, off = o.pick(s.P, s.q, s.c, s.d, index)
            on = (index >= 0).reshape(d.shape)
            return (d[on] * gd[on]).sum() + (off[on] * go[on]).sum()
        for make, x in ((lambda: o.Search(P, q, k, flow if S else None), flow),
                        (lambda: o.Refine(P2, q, k, given), None)):
            if x is None:
                P2 = o.params(**{**vars(P), "wr": P.ws})
                given = x = rng.normal(size=shape + (2, 3)) * 3
            s = make().run()
            gd, go = rng.normal(size=s.dist.shape), rng.normal(size=s.offset.shape)
            f = lambda: again(make, s.index, gd, go)
            dq, dk, dc = s.grad(s.index, gd, go)
            central(f, q, dq.value, some(rng, q))
            central(f, k, dk.value, some(rng, k))
            if x.size:
                dx = s.given_grad(dc) if s.is_refine else s.flow_grad(dc)
                where = some(rng, x)
                central(f, x, dx.value, [i for i in where if not s.is_refine or i % 3])
        V, w, off = q, rng.normal(size=shape + (2,)), rng.normal(size=shape + (2, 3)) * 3
        G = lambda: o.Gather(P, V.shape, off)
        for stack in (False, True):
            g = rng.normal(size=(1, heads, 2, T, H, W, F) if stack else V.shape)
            f = lambda: (G().gather(V, w, stack).value * (g if stack else o.as_heads(g, heads))).sum()
            dV, dw, do = G().gather_grad(V, w, g, stack)
            central(f, V, dV.value, some(rng, V))
            central(f, w, dw.value, some(rng, w))
            central(f, off, do.value, [i for i in some(rng, off) if i % 3])
        g, gt = rng.normal(size=V.shape), rng.normal(size=V.shape[:4] + (heads,))
        f = lambda: sum((a.value * b).sum() for a, b in zip(G().scatter(V, w), (o.as_heads(g, heads), gt[..., None])))
        dV, dw, do = G().scatter_grad(V, w, g, gt)
        central(f, V, dV.value, some(rng, V))
        central(f, w, dw.value, some(rng, w))
        central(f, off, do.value, [i for i in some(rng, off) if i % 3])
        ff, bf = rng.normal(size=(2, 1, T, H, W, 2)) * 2
        g = rng.normal(size=o.compose(ff, bf, 1, P.stride0).shape)
        for rule in ("mirrored", "reflected"):
            _, df, db, _ = o.compose(ff, bf, 1, P.stride0, g, rule)
            f = lambda: (o.compose(ff, bf, 1, P.stride0) * g).sum()
            central(f, ff, df.value, some(rng, ff), 1e-7)
            central(f, bf, db.value, some(rng, bf), 1e-7)
        d = rng.random((3, 5))
        d[0, 2] = np.inf
        g = rng.normal(size=d.shape)
        for kind in ("l2", "prod"):
            central(lambda: (o.weights(d, kind, 3) * g).sum(), d, o.weights_grad(d, g, kind, 3), [0, 1, 5, 6, 7])
        assert o.weights_grad(d, g)[0, 2] == 0


def run():
    tests = [frame_order, reflection, windows, selection, shifted_key, composition, aggregation, softmax, gradients]
    for test in tests:
        test()
        print(f"{test.__name__}: ok")
    print(f"{len(tests)} passed, 0 failed")
