#!/usr/bin/env python3
"""Random comparison of the snls command line with oracle.py. See README.md.

    compare.py --snls build/snls --cases 300 --seed 1 [--backend ref,cpu] [--only search] [--jobs 8]
    compare.py --snls build/snls --bad          wrong inputs: exit codes, one line on stderr, nothing left behind
    compare.py --self-test                      the oracle itself, without snls
"""
import argparse
import concurrent.futures
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import oracle as o  # noqa: E402

EPS = {np.dtype("f4"): 2.0 ** -23, np.dtype("f8"): 2.0 ** -52}
OPS = {"search": 9, "refine": 3, "compose": 2, "weights": 1, "gather": 2, "gather-add": 3, "scatter-add": 2, "search-all": 2}


class Failure(Exception):
    pass


def need(ok, text):
    if not ok:
        raise Failure(text)


# ---- drawing ----

def choose(rng, *values):
    return values[int(rng.integers(len(values)))]


def chance(rng, p):
    return rng.random() < p


def side(rng, big):
    return int(choose(rng, 17, 23, 32, 37, 41)) if big else int(choose(rng, 1, 2, 3, 5, 7, 11, 13, rng.integers(1, 15)))


def video_sizes(rng):
    big = chance(rng, 0.1)                                      # windows and patches that do not touch the border
    return dict(B=1 if big else int(choose(rng, 1, 1, 2)), T=int(rng.integers(1, 6)), H=side(rng, big), W=side(rng, big), heads=1 if big else int(choose(rng, 1, 1, 2, 3)),
                F=int(choose(rng, 1, 2, 3, 4, 7, 8, 13, 16, 17, 32, 33, 40, 64, 100)), ps=int(choose(rng, 1, 1, 2, 3, 4, 5)), dilation=int(choose(rng, 1, 1, 2, 3)),
                stride0=int(choose(rng, 1, 1, 2, 3, 4)))


def shrink(rng, p, work, limit):
    """Halves sizes at random until the oracle has little enough to do"""
    big = min(p["H"], p["W"]) > 15
    while work(p) > limit * (3 if big else 1):
        name = choose(rng, "F", "F", "F", "ps", "ws", "K", "T", "stride0") if big else choose(rng, "B", "H", "W", "heads", "F", "F", "ps", "ws", "K")
        if name == "stride0":
            p[name] += 1
            continue
        if name == "T":
            p[name], p["wt"] = max(1, p[name] // 2), 0
            continue
        if name in p:
            p[name] = max(1, p[name] // 2)
    return p


def cells(L, stride0):
    return -(-L // stride0)


def draw_features(rng, shape, exact):
    """(array f8, whether arithmetic on it stays exact on the 1/4-pixel lattice, dtype wish)"""
    if exact:
        kind = choose(rng, "ints", "ints", "few", "constant", "bytes", "planted")
        if kind == "bytes":
            return rng.integers(0, 4, shape).astype(float), "u1"
        if kind == "constant":
            return np.full(shape, float(rng.integers(-2, 3))), "f4"
        v = rng.integers(-2, 3, shape).astype(float)
        if kind == "few":
            v *= rng.random(shape) < 0.2
        if kind == "planted":
            v[:] = v[:, :, :1, :1]
            v[rng.random(shape) < 0.1] = 2
        return v, choose(rng, "f4", "f4", "f8", "f2")
    kind = choose(rng, "normal", "normal", "large", "raised", "smooth", "constant", "bytes")
    if kind == "bytes":
        return rng.integers(0, 256, shape).astype(float), "u1"
    v = rng.normal(size=shape)
    if kind == "large":
        v *= 200
    if kind == "raised":
        v = choose(rng, 100, 3000) + choose(rng, 0.05, 0.5) * v
    if kind == "smooth":
        v = np.cumsum(np.cumsum(v, 2), 3) * 0.1
    if kind == "constant":
        v = np.full(shape, float(rng.normal()))
    return v, choose(rng, "f4", "f4", "f4", "f8", "f8", "f2")


def draw_moves(rng, shape, H, W, exact):
    """Displacements [..., 2] as (x, y)"""
    lim = np.array([W, H], float)
    kind = choose(rng, "zero", "integer", "quarter", "far integer") if exact else \
        choose(rng, "zero", "integer", "quarter", "smooth", "random", "random", "random", "far", "far", "far integer", "huge")
    u = rng.random(shape) * 2 - 1
    if kind == "zero":
        return np.zeros(shape)
    if kind == "integer":
        return np.rint(u * 3)
    if kind == "quarter":
        return np.rint(u * 12) / 4
    if kind == "smooth":
        return np.broadcast_to(rng.normal(size=2) * 2, shape) + 0.05 * u
    if kind == "random":
        return u * 2.5
    if kind == "far":
        return u * 3 * lim
    if kind == "huge":                                          # the wave is defined for every real
        return u * 10.0 ** rng.uniform(2, choose(rng, 6, 20, 38), shape)
    return np.rint(u * 3 * lim)


def as_dtype(v, dtype):
    return v.astype(dtype)


def pick_dtype(wish, backends):
    """f8 is compared with the ref backend only"""
    return "f4" if wish == "f8" and "ref" not in backends else wish


# ---- running ----

class Runner:
    def __init__(self, args, folder, backend, dtype):
        self.args, self.dir, self.backend, self.dtype = args, folder, backend, np.dtype(dtype)
        self.eps = EPS[self.dtype]
        self.options, self.files, self.outputs = [], [], []
        self.command = ""

    def file(self, name, array, version=None):
        path = os.path.join(self.dir, name + ".npy")
        with open(path, "wb") as f:
            np.lib.format.write_array(f, np.ascontiguousarray(array), version=version)
        return path

    def give(self, option, name, array):
        self.options += [option, self.file(name, array)]

    def want(self, option, name):
        path = os.path.join(self.dir, f"{name}.{self.backend}.npy")
        self.options += [option, path]
        self.outputs.append(path)
        return name

    def run(self, verb, *inputs):
        argv = [self.args.snls, verb, *inputs, *self.options, "--backend", self.backend]
        out = run_process(argv)
        self.command = shlex.join(argv)
        need(out.returncode == 0, f"exit {describe(out.returncode)}: {out.stderr.strip()[:300]}")
        got = {}
        for path in self.outputs:
            need(os.path.exists(path) and not os.path.exists(path + ".part"), f"{os.path.basename(path)} was not written")
            name = os.path.basename(path).split(".")[0]
            got[name] = np.load(path)
            need(got[name].dtype == (np.int32 if name == "I" else self.dtype), f"{name} has dtype {got[name].dtype}, expected {self.dtype}")
            os.remove(path)
        return got

    def same_again(self, verb, inputs, got, names):
        """Another number of threads gives the same bits"""
        kept, self.options = self.options, self.options + ["--threads", "3"]
        again = self.run(verb, *inputs)
        self.options = kept
        for name in names:
            need(got[name].tobytes() == again[name].tobytes(), f"{name} differs between thread counts")


def run_process(argv):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=120)


def describe(code):
    return signal.Signals(-code).name if code < 0 else str(code)


def compare(name, got, want, bound, nan_ok=False):
    """Elementwise |got - want| <= bound; equal infinities agree"""
    need(got.shape == want.shape, f"{name} has shape {got.shape}, expected {want.shape}")
    if got.size == 0:
        return
    limit = np.finfo(got.dtype).max
    got = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(got - want) <= bound) & ~(got == want)
        bad &= ~(np.isinf(got) & (np.abs(want) + bound > limit))        # rightly overflows
    if nan_ok:
        bad &= ~(np.isnan(got) & np.isnan(want))
    if bad.any():
        bound = np.broadcast_to(bound, bad.shape)
        i = np.argmax(bad)
        at = tuple(int(v) for v in np.unravel_index(i, bad.shape))
        raise Failure(f"{name}{list(at)} is {got.flat[i]!r}, expected {want.flat[i]!r} within {bound.flat[i]:.3g}; {int(bad.sum())} of {bad.size} differ")


def compare_sum(name, got, s, eps, shape=None, extra=8, nan_ok=False):
    """A Sum in one precision against the CLI: its own bound, the rounding of the result, and the oracle's own error"""
    want, bound = s.value, s.bound(eps, extra) + eps * np.abs(s.value) + s.bound(2.0 ** -52, extra) + np.finfo(np.float32).tiny
    compare(name, got, want.reshape(shape or want.shape), bound.reshape(shape or want.shape), nan_ok)


# ---- search and refine ----

def search_params(rng, p, refine):
    exact = chance(rng, 0.4)
    s = dict(ps=p["ps"], heads=p["heads"], stride0=p["stride0"], dilation=p["dilation"],
             dist=choose(rng, "l2", "l2", "prod"), interp=choose(rng, "bilinear", "bilinear", "bilinear", "nearest"),
             border=choose(rng, "reflect", "reflect", "drop"), window=choose(rng, "slide", "slide", "cut"))
    if s["interp"] == "nearest":
        s["stride1"] = choose(rng, 1.0, 1.0, 2.0, 3.0)
    elif exact:
        s["stride1"] = choose(rng, 1.0, 2.0, 3.0, 0.5, 0.25)
    else:
        s["stride1"] = choose(rng, 1.0, 1.0, 2.0, 3.0, 0.5, 0.25, 1.1, 0.7, float(rng.uniform(0.1, 3)))
    s["wr" if refine else "ws"] = p["ws"]
    candidates = p["K"] * p["ws"] ** 2
    s["k"] = int(choose(rng, 1, 2, 3, 5, 10, int(rng.integers(1, candidates + 3)), candidates, candidates + int(rng.integers(1, 4))))
    s["k"] = min(s["k"], 60 if chance(rng, 0.9) else 300)
    if not refine:
        s["wt"] = p["wt"]
        s["anchor"] = choose(rng, "none", "none", "self", "each")
        s["exclude"] = choose(rng, "none", "none", "self", "frame")
        s["topk"] = choose(rng, "all", "all", "each")
        if s["anchor"] == "self" or (s["anchor"] == "each" and s["exclude"] == "self"):
            s["exclude"] = "none"
        if s["anchor"] == "each" and s["topk"] == "all":
            s["k"] = max(s["k"], 2 * p["wt"] + 1)
    return s, exact


def to_options(P, skip=()):
    out = []
    for name, value in P.items():
        if name not in skip:
            out += ["--" + name, repr(value) if isinstance(value, float) else str(value)]
    return out


def draw_search(rng, backends, refine):
    p = video_sizes(rng)
    p["wt"] = int(rng.integers(0, (p["T"] - 1) // 2 + 1))
    p["ws"] = int(choose(rng, 1, 2, 3, 3, 4, 5, 7, 9, 15)) if not refine else int(choose(rng, 1, 1, 2, 3, 4, 5))
    p["K"] = int(rng.integers(1, 7)) if refine else 2 * p["wt"] + 1
    size = lambda v: (v["B"] * v["heads"] * v["T"] * cells(v["H"], v["stride0"]) * cells(v["W"], v["stride0"]) * (v["K"] if refine else 2 * v["wt"] + 1)
                      * v["ws"] ** 2 * v["ps"] ** 2 * (v["F"] + 12))
    shrink(rng, p, size, 1.2e6)
    if not refine:
        p["K"] = 2 * p["wt"] + 1
    s, exact = search_params(rng, p, refine)
    B, T, H, W, heads = (p[n] for n in ("B", "T", "H", "W", "heads"))
    shape = (B, T, H, W, heads * p["F"])
    nH, nW = cells(H, p["stride0"]), cells(W, p["stride0"])
    q, wish = draw_features(rng, shape, exact)
    k, _ = draw_features(rng, shape, exact)
    if wish == "u1":
        k = np.rint(np.abs(k)) % (4 if exact else 256)
    if exact and chance(rng, 0.5):
        k = q.copy()
    wish = pick_dtype(wish, backends)
    nan = wish != "u1" and chance(rng, 0.12)
    if nan:
        for v in (q, k):
            if chance(rng, 0.7):
                v[rng.random(shape) < choose(rng, 0.01, 0.05, 0.3) / p["F"]] = np.nan
    S = choose(rng, 2 * p["wt"], 2 * p["wt"] + 1)
    head_axis = chance(rng, 0.3)
    moves = None
    if refine:
        moves = np.zeros((B, heads, T, nH, nW, p["K"], 3))
        moves[..., 1:] = draw_moves(rng, moves.shape[:-1] + (2,), H, W, exact)[..., ::-1]
        moves[..., 0] = choose(rng, 0, rng.integers(-2, 3, moves.shape[:-1]), rng.integers(-3 * T, 3 * T + 1, moves.shape[:-1]),
                               np.rint(rng.normal(size=moves.shape[:-1]) * 4) / 2,            # halves: rounded to even
                               rng.normal(size=moves.shape[:-1]) * 10.0 ** rng.uniform(0, 37))
    elif chance(rng, 0.8):
        moves = draw_moves(rng, (B, heads, T, S, nH, nW, 2) if head_axis else (B, T, S, nH, nW, 2), H, W, exact)
    if moves is not None and s["interp"] == "nearest" and chance(rng, 0.5):
        moves[..., -2:] = np.rint(moves[..., -2:] * 2 + rng.integers(-1, 2, moves.shape[:-1] + (2,))) / 2      # halves: to even
    dtype = "f8" if wish == "f8" else "f4"
    return dict(p=p, s=s, exact=exact, nan=nan, q=as_dtype(q, wish), k=as_dtype(k, wish), dtype=dtype, moves=None if moves is None else as_dtype(moves, dtype))


def match(got, c, i, single):
    """Candidates of query i at the returned offsets [K,3]: list of arrays of candidate numbers, valid ones only"""
    want = np.stack([c.dt[i], c.dy[i], c.dx[i]], -1)
    slack = np.zeros_like(want) if single else 2.0 ** -24 * np.abs(want)
    want = want.astype(np.float32) if single else want
    hit = (np.abs(got[:, None] - want[None]) <= slack[None]).all(-1) & c.valid[i][None]
    return [np.flatnonzero(h) for h in hit]


def identify(S, O, P, dtype, D):
    """The candidate behind every returned place, [N,K]; -1 where the distance is infinite. Duplicates (refine): lowest number first"""
    c, N = S.c, S.q.n
    O, D = O.reshape(N, -1, 3), D.reshape(N, -1)
    index, unsure = np.full(D.shape, -1), np.zeros(N, bool)
    for i in range(N):
        taken = set()
        on = np.flatnonzero(np.isfinite(D[i]))
        for j, hits in zip(on, match(O[i, on], c, i, dtype == np.float32)):
            need(len(hits), f"query {i} place {j}: offset {O[i, j].tolist()} is no valid candidate")
            free = [m for m in hits if m not in taken]
            need(free, f"query {i} place {j}: offset {O[i, j].tolist()} returned twice")
            if len(hits) > 1:                                   # same place exactly: distances are the same bits; almost: cannot tell
                y, x = c.y[i, hits], c.x[i, hits]
                unsure[i] |= bool(np.ptp(y) or np.ptp(x))
            taken.add(free[0])
            index[i, j] = free[0]
    return index, unsure


def check_selection(S, P, D, O, exact, eps, dtype):
    """Sorted, legal, true distances, true order statistics; in exact arithmetic the very places. Returns the candidates"""
    N, sign = S.q.n, 1 if P.dist == "l2" else -1
    need(D.shape == S.q.shape + (S.index.shape[1],), f"dist has shape {D.shape}, expected {S.q.shape + (S.index.shape[1],)}")
    need(O.shape == D.shape + (3,), f"offset has shape {O.shape}")
    need(not np.isnan(D).any() and np.isfinite(O).all(), "NaN in the distances or a non-finite offset")
    none = np.isinf(D)
    need((D[none] == sign * np.inf).all() and (O[none] == 0).all(), "an invalid place has not dist +-inf and offset 0")
    index, unsure = identify(S, O, P, dtype, D)
    D = D.reshape(N, -1)
    tol = o.tolerance(S.bounds, eps) + np.finfo(np.float32).tiny
    tol = tol + o.tolerance(S.bounds, 2.0 ** -52) + (0 if dtype == np.float64 else 2.0 ** -24 * np.abs(np.nan_to_num(S.d)))
    for i in range(N):
        start = 0
        for count, anchors, pool in o.plan(P, S.c, S.d, i, S.is_refine):
            row, d = index[i, start:start + count], D[i, start:start + count]
            say = f"query {i}, places {start}..{start + count - 1}: "
            full = min(count, len(anchors) + len(pool))
            need((row[:full] >= 0).all() and (row[full:] < 0).all(), say + f"{int((row >= 0).sum())} neighbours, expected {full}")
            row, d = row[:full], d[:full]
            na = len(anchors)
            need(list(row[:na]) == list(anchors), say + f"anchors are {list(row[:na])}, expected {list(anchors)}")
            need(np.isin(row[na:], pool).all(), say + "an excluded, invalid or already anchored candidate was returned")
            off = np.abs(d - S.d[i, row]) > tol[i, row]
            need(not off.any(), say + f"distance {d[np.argmax(off)] if full else 0!r} at candidate {row[np.argmax(off)] if full else 0}, "
                 f"recomputed {S.d[i, row][np.argmax(off)] if full else 0!r}")
            need((np.diff(sign * d[na:]) >= 0).all(), say + f"not sorted: {d[na:].tolist()}")
            rest = np.sort(sign * S.d[i, pool] - tol[i, pool])[:full - na], np.sort(sign * S.d[i, pool] + tol[i, pool])[:full - na]
            need(((sign * d[na:] >= rest[0]) & (sign * d[na:] <= rest[1])).all(), say + f"not the best: {d[na:].tolist()}, expected {np.sort(sign * S.d[i, pool])[:full - na] * sign}")
            start += count
    if exact:
        want = S.index
        same = index == want
        if S.is_refine:                                         # duplicates of one place are the same place
            same |= unsure[:, None]
        need(same.all(), "exact arithmetic, ties by index: query {0[0]} place {0[1]} is candidate {1}, expected {2}".format(
            np.argwhere(~same)[0] if not same.all() else (0, 0), index[~same][:1], want[~same][:1]))
        need((D == S.dist.reshape(N, -1)).all(), "exact arithmetic: a distance is not exact")
    return index, unsure


def run_search(rng, args, folder, backends, refine):
    case = draw_search(rng, backends, refine)
    s, P = case["s"], o.params(**case["s"])
    S = (o.Refine if refine else o.Search)(P, case["q"], case["k"], case["moves"]).run(stored=np.dtype(case["dtype"]))
    K = S.index.shape[1]
    grads = chance(rng, 0.7)
    gd = as_dtype(rng.normal(size=S.q.shape + (K,)), case["dtype"])
    go = as_dtype(rng.normal(size=S.q.shape + (K, 3)), case["dtype"])
    with_go, wanted, twice, with_index = chance(rng, 0.5), rng.random(3) < 0.8, chance(rng, 0.1), chance(rng, 0.3)
    for backend in usable(backends, case["dtype"]):
        r = Runner(args, folder, backend, case["dtype"])
        inputs = [r.file("Q", case["q"]), r.file("K", case["k"])]
        if refine:
            inputs.append(r.file("OFF", case["moves"]))
        elif case["moves"] is not None:
            r.give("--flow", "FLOW", case["moves"])
        r.options += to_options(s)
        r.want("--out-dist", "D"), r.want("--out-offset", "O")
        if with_index:
            r.want("--out-index", "I")
        ask_centre = wanted[2] and P.interp == "bilinear" and (refine or case["moves"] is not None)
        if grads:
            r.give("--grad-dist", "GD", gd)
            if with_go:
                r.give("--grad-offset", "GO", go)
            if wanted[0]:
                r.want("--out-grad-q", "GQ")
            if wanted[1] or not (wanted[0] or ask_centre):
                r.want("--out-grad-k", "GK")
            if ask_centre:
                r.want("--out-grad-offset" if refine else "--out-grad-flow", "GC")
        with context(r, case):
            got = r.run("refine" if refine else "search", *inputs)
            index, unsure = check_selection(S, P, got["D"], got["O"], case["exact"], r.eps, r.dtype)
            if with_index:
                need(((got["I"].reshape(index.shape) == index) | unsure[:, None]).all(), "the index is not that of the offset")
            if grads:
                dq, dk, dc = S.grad(index, gd, go if with_go else None)
                nan = case["nan"]
                if "GQ" in got:
                    compare_sum("grad-q", got["GQ"], dq, r.eps, case["q"].shape, nan_ok=nan)
                if "GK" in got:
                    compare_sum("grad-k", got["GK"], dk, r.eps, case["k"].shape, nan_ok=nan)
                if "GC" in got and not nan:
                    if refine:
                        want = S.given_grad(dc)
                        on = ~np.broadcast_to(unsure.reshape(S.q.shape + (1, 1)), want.shape)
                        got["GC"] = np.where(on, got["GC"], want.value).astype(r.dtype)
                    else:
                        want = S.flow_grad(dc)
                    compare_sum("grad-offset" if refine else "grad-flow", got["GC"], want, r.eps)
            if twice and backend != "ref":
                r.same_again("refine" if refine else "search", inputs, got, ["D", "O"])


def run_search_all(rng, args, folder, backends):
    case = draw_search(rng, backends, False)
    s = {**case["s"], "anchor": "none", "topk": "all"}
    P = o.params(**s)
    S = o.Search(P, case["q"], case["k"], case["moves"]).run(stored=np.dtype(case["dtype"]))
    dist, offset = S.all()
    index = np.where(np.isfinite(dist).reshape(S.q.n, -1), np.arange(S.c.M), -1)
    grads, ask_flow = chance(rng, 0.4), P.interp == "bilinear" and case["moves"] is not None
    gd, go = as_dtype(rng.normal(size=dist.shape), case["dtype"]), as_dtype(rng.normal(size=offset.shape), case["dtype"])
    for backend in usable(backends, case["dtype"]):
        r = Runner(args, folder, backend, case["dtype"])
        inputs = [r.file("Q", case["q"]), r.file("K", case["k"])]
        if case["moves"] is not None:
            r.give("--flow", "FLOW", case["moves"])
        r.options += to_options(s, ("k", "anchor", "topk"))
        r.want("--out-dist", "D"), r.want("--out-offset", "O")
        if grads:
            r.give("--grad-dist", "GD", gd), r.give("--grad-offset", "GO", go)
            r.want("--out-grad-q", "GQ"), r.want("--out-grad-k", "GK")
            if ask_flow:
                r.want("--out-grad-flow", "GC")
        with context(r, case):
            got = r.run("search-all", *inputs)
            tol = o.tolerance(S.bounds, r.eps) + o.tolerance(S.bounds, 2.0 ** -52) + np.finfo(np.float32).tiny
            compare("dist", got["D"], dist, 0 if case["exact"] else tol.reshape(dist.shape))
            compare("offset", got["O"], offset.astype(r.dtype).astype(np.float64), 0 if r.dtype == np.float32 else 2.0 ** -24 * np.abs(offset))
            if grads:
                dq, dk, dc = S.grad(index, gd, go)
                compare_sum("grad-q", got["GQ"], dq, r.eps, case["q"].shape, nan_ok=case["nan"])
                compare_sum("grad-k", got["GK"], dk, r.eps, case["k"].shape, nan_ok=case["nan"])
                if ask_flow and not case["nan"]:
                    compare_sum("grad-flow", got["GC"], S.flow_grad(dc), r.eps)


# ---- the other operators ----

def run_compose(rng, args, folder, backends):
    p = video_sizes(rng)
    wt = int(rng.integers(0, (p["T"] - 1) // 2 + 1))
    shape = (p["B"], p["T"], p["H"], p["W"], 2)
    kind = choose(rng, "constant", "integer", "smooth", "random", "random", "far", "huge")
    lim = np.array([p["W"], p["H"]])
    ff, bf = {"constant": lambda: np.broadcast_to(rng.normal(size=(2, 1, 1, 1, 1, 2)) * 3, (2,) + shape),
              "integer": lambda: rng.integers(-4, 5, (2,) + shape).astype(float),
              "smooth": lambda: np.cumsum(np.cumsum(rng.normal(size=(2,) + shape), 3), 4) * 0.05,
              "random": lambda: rng.normal(size=(2,) + shape) * 2,
              "huge": lambda: (rng.random((2,) + shape) * 2 - 1) * 10.0 ** rng.uniform(2, choose(rng, 6, 12, 30), (2,) + shape),
              "far": lambda: (rng.random((2,) + shape) * 6 - 3) * lim}[kind]()
    dtype = pick_dtype(choose(rng, "f4", "f4", "f8"), backends)
    ff, bf = as_dtype(ff, dtype), as_dtype(bf, dtype)
    nH, nW = cells(p["H"], p["stride0"]), cells(p["W"], p["stride0"])
    g = as_dtype(rng.normal(size=(p["B"], p["T"], 2 * wt, nH, nW, 2)), dtype)
    readings = [o.compose(ff, bf, wt, p["stride0"], g, rule) for rule in ("mirrored", "reflected")]
    want = readings[0][0]
    grads = chance(rng, 0.7)
    # coordinates are f64: errors of one read, magnified by the steps that follow
    steepest = 1 + 4 * max(np.abs(ff).max(), np.abs(bf).max())
    bound = 64 * 2.0 ** -52 * (np.abs(want) + p["H"] + p["W"] + steepest) * steepest ** max(0, 2 * wt - 1)
    for backend in usable(backends, dtype):
        r = Runner(args, folder, backend, dtype)
        inputs = [r.file("FF", ff), r.file("BF", bf)]
        r.options += ["--wt", str(wt), "--stride0", str(p["stride0"])]
        r.want("--out", "F")
        if grads:
            r.give("--grad-out", "G", g)
            r.want("--out-grad-fflow", "GFF"), r.want("--out-grad-bflow", "GBF")
        with context(r, dict(kind=kind, wt=wt, shape=shape, stride0=p["stride0"], dtype=dtype)):
            got = r.run("compose", *inputs)
            compare("flow", got["F"], want, bound + r.eps / 2 * np.abs(want))
            if kind == "constant" and dtype == "f4":            # exactly n*c
                need((got["F"] == want.astype(np.float32)).all(), "constant flow does not give exactly n*c")
            if grads and readings[0][3] < 1e-9:                 # else rounding may put a place into another cell
                blame = []
                for _, df, db, _ in readings:
                    try:
                        compare_sum("grad-fflow", got["GFF"], df, r.eps)
                        compare_sum("grad-bflow", got["GBF"], db, r.eps)
                        break
                    except Failure as e:
                        blame.append(e)
                else:
                    raise blame[0]


def run_weights(rng, args, folder, backends):
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(choose(rng, 1, 2, 5, 17, 64)))
    kind, scale = choose(rng, "l2", "prod"), float(choose(rng, 10.0, 1.0, 0.01, 100.0, rng.uniform(0.01, 30)))
    d = np.abs(rng.normal(size=shape)) * choose(rng, 1, 0.01, 30, 1e4)
    if kind == "prod":
        d *= rng.choice([-1, 1], shape)
    d[rng.random(shape) < choose(rng, 0, 0.3, 0.9)] = np.inf if kind == "l2" else -np.inf
    d[rng.random(shape) < choose(rng, 0, 0, 0.1)] = np.nan
    if chance(rng, 0.1):
        scale = -scale
    dtype = pick_dtype(choose(rng, "f4", "f4", "f8"), backends)
    d, g = as_dtype(d, dtype), as_dtype(rng.normal(size=shape), dtype)
    w, dg = o.weights(d, kind, scale), o.weights_grad(d, g, kind, scale)
    grads = chance(rng, 0.7)
    z = scale * np.where(np.isfinite(d), d, 0).astype(np.float64)
    best = np.where(np.isfinite(d), -z if kind == "l2" else z, -np.inf).max(-1, keepdims=True)
    away = np.where(np.isfinite(d) & np.isfinite(best), np.abs((-z if kind == "l2" else z) - np.where(np.isfinite(best), best, 0)), 0)
    rel = shape[-1] + 8 + 4 * away                              # in eps: the sum, exp, and the rounding of its argument
    for backend in usable(backends, dtype):
        r = Runner(args, folder, backend, dtype)
        r.options += ["--dist", kind] + (["--scale", repr(scale)] if scale != 10 or chance(rng, 0.5) else [])
        r.want("--out", "W")
        if grads:
            r.give("--grad-out", "G", g)
            r.want("--out-grad-dist", "GD")
        with context(r, dict(shape=shape, kind=kind, scale=scale, dtype=dtype)):
            got = r.run("weights", r.file("D", d))
            tiny = np.finfo(np.float32).tiny if dtype == "f4" else 1e-300
            compare("weight", got["W"], w, 2 * r.eps * rel * w + tiny)
            need((got["W"][~np.isfinite(d)] == 0).all(), "an invalid neighbour has a weight")
            if grads:
                mean = (w * np.abs(g)).sum(-1, keepdims=True)
                relmean = (w * np.abs(g) * rel).sum(-1, keepdims=True)
                compare("grad-dist", got["GD"], dg, 4 * r.eps * abs(scale) * w * (rel * (np.abs(g) + mean) + relmean) + tiny * (1 + abs(scale)) * 8 * (1 + np.abs(g).max()))


def run_aggregate(rng, args, folder, backends, verb):
    p = video_sizes(rng)
    p["K"] = int(choose(rng, 1, 1, 2, 3, 5, 10))
    shrink(rng, p, lambda v: v["B"] * v["heads"] * v["T"] * cells(v["H"], v["stride0"]) * cells(v["W"], v["stride0"]) * v["K"] * v["ps"] ** 2 * (v["F"] + 12), 3e5)
    B, T, H, W, heads, K, F = (p[n] for n in ("B", "T", "H", "W", "heads", "K", "F"))
    s = dict(ps=p["ps"], stride0=p["stride0"], dilation=p["dilation"], heads=heads, interp=choose(rng, "bilinear", "bilinear", "nearest"), border=choose(rng, "reflect", "reflect", "drop"))
    P = o.params(**s)
    dtype = pick_dtype(choose(rng, "f4", "f4", "f8"), backends)
    shape = (B, heads, T, cells(H, p["stride0"]), cells(W, p["stride0"]), K)
    off = np.zeros(shape + (3,))
    off[..., 1:] = draw_moves(rng, shape + (2,), H, W, False)[..., ::-1]
    if s["interp"] == "nearest" and chance(rng, 0.5):
        off[..., 1:] = np.rint(off[..., 1:] * 2) / 2            # halves: to even
    off[..., 0] = choose(rng, 0, rng.integers(-T, T + 1, shape), rng.integers(-3 * T, 3 * T + 1, shape), np.rint(rng.normal(size=shape) * 4) / 2,
                         rng.normal(size=shape) * 10.0 ** rng.uniform(0, 37))
    w = rng.random(shape) if chance(rng, 0.7) else rng.normal(size=shape)
    w[rng.random(shape) < 0.2] = 0
    v = rng.normal(size=(B, T, H, W, heads * F))
    vtype = dtype
    if dtype == "f4" and chance(rng, 0.2):
        vtype = choose(rng, "f2", "u1")
    v = as_dtype(np.abs(v) * 50 if vtype == "u1" else v, vtype)
    off, w = as_dtype(off, dtype), as_dtype(w, dtype)
    stack = verb == "gather"
    G = o.Gather(P, v.shape, off)
    g = as_dtype(rng.normal(size=(B, heads, K, T, H, W, F) if stack else v.shape), dtype)
    gt = as_dtype(rng.normal(size=(B, T, H, W, heads)), dtype)
    grads, with_total = chance(rng, 0.7), verb == "scatter-add" and chance(rng, 0.5)
    give_heads = chance(rng, 0.7)
    wanted = rng.random(3) < 0.8
    for backend in usable(backends, dtype):
        r = Runner(args, folder, backend, dtype)
        inputs = [r.file("V", v), r.file("WT", w), r.file("OFF", off)]
        r.options += to_options(s, () if give_heads else ("heads",))
        r.want("--out", "Y")
        if verb == "scatter-add":
            r.want("--out-total", "A")
        if grads:
            r.give("--grad-out", "G", g)
            if with_total:
                r.give("--grad-total", "GT", gt)
            if wanted[0]:
                r.want("--out-grad-v", "GV")
            if wanted[1] or not (wanted[0] or (wanted[2] and P.interp == "bilinear")):
                r.want("--out-grad-w", "GW")
            if wanted[2] and P.interp == "bilinear":
                r.want("--out-grad-offset", "GO")
        with context(r, dict(s=s, p=p, dtype=dtype, vtype=vtype)):
            got = r.run(verb, *inputs)
            if verb == "scatter-add":
                y, total = G.scatter(v, w)
                compare_sum("out", got["Y"], y, r.eps, v.shape)
                compare_sum("total", got["A"], total, r.eps, v.shape[:4] + (heads,))
            else:
                y = G.gather(v, w, stack)
                compare_sum("out", got["Y"], y, r.eps, y.value.shape if stack else v.shape)
            if grads:
                dv, dw, do = G.scatter_grad(v, w, g, gt if with_total else None) if verb == "scatter-add" else G.gather_grad(v, w, g, stack)
                if "GV" in got:
                    compare_sum("grad-v", got["GV"], dv, r.eps, v.shape)
                if "GW" in got:
                    compare_sum("grad-w", got["GW"], dw, r.eps, w.shape)
                if "GO" in got:
                    compare_sum("grad-offset", got["GO"], do, r.eps, off.shape)


# ---- driver ----

def usable(backends, dtype):
    return [b for b in backends if b == "ref" or dtype != "f8"]


class context:
    """Adds backend, parameters and command to a failure"""

    def __init__(self, runner, case):
        self.runner = runner
        self.text = ", ".join(f"{k}={v}" for k, v in case.items() if not isinstance(v, np.ndarray))

    def __enter__(self):
        return self

    def __exit__(self, kind, e, tb):
        if kind is Failure:
            raise Failure(f"[{self.runner.backend}] {e} ({self.text}) command: {self.runner.command}") from None


def run_case(args, seed):
    """None, or what went wrong"""
    rng = np.random.default_rng(seed)
    names, odds = list(OPS), np.array(list(OPS.values()), float)
    op = names[int(rng.choice(len(names), p=odds / odds.sum()))]
    op = args.only or op
    folder = tempfile.mkdtemp(prefix="snls-oracle-")
    backends = args.backend.split(",")
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            if op in ("search", "refine"):
                run_search(rng, args, folder, backends, op == "refine")
            elif op == "search-all":
                run_search_all(rng, args, folder, backends)
            elif op == "compose":
                run_compose(rng, args, folder, backends)
            elif op == "weights":
                run_weights(rng, args, folder, backends)
            else:
                run_aggregate(rng, args, folder, backends, op)
    except Failure as e:
        return f"{op}: {e}"
    except subprocess.TimeoutExpired:
        return f"{op}: no answer within 120 s"
    except Exception as e:                                      # the oracle's own fault, or output that cannot be read
        if args.trace:
            raise
        return f"{op}: {type(e).__name__}: {e}"
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return None


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--snls", default="build/snls")
    a.add_argument("--cases", type=int, default=300)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--backend", default="ref")
    a.add_argument("--only", choices=list(OPS))
    a.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    a.add_argument("--stop", type=int, default=10, help="stop after so many failures")
    a.add_argument("--keep", action="store_true", help="keep the temporary folders")
    a.add_argument("--trace", action="store_true", help="show Python's traceback of an unexpected exception")
    a.add_argument("--bad", action="store_true")
    a.add_argument("--self-test", action="store_true")
    args = a.parse_args()
    if args.self_test:
        import selftest
        return selftest.run()
    args.snls = os.path.abspath(args.snls)
    if not os.access(args.snls, os.X_OK):
        sys.exit(f"compare.py: {args.snls} is not a program; build it, or name it with --snls")
    if args.bad:
        import badinput
        return badinput.run(args.snls, args.backend.split(",")[0])
    passed = failed = 0
    pool = concurrent.futures.ProcessPoolExecutor(args.jobs) if args.jobs > 1 and args.cases > 1 else None
    seeds = range(args.seed, args.seed + args.cases)
    results = pool.map(run_case, [args] * args.cases, seeds, chunksize=4) if pool else (run_case(args, s) for s in seeds)
    for seed, result in zip(seeds, results):
        passed, failed = passed + (result is None), failed + (result is not None)
        if result is not None:
            only = f" --only {args.only}" if args.only else ""
            print(f"{result}\n    repeat with: {sys.argv[0]} --snls {args.snls} --backend {args.backend}{only} --seed {seed} --cases 1", flush=True)
            if failed >= args.stop:
                break
    if pool:
        pool.shutdown(cancel_futures=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
