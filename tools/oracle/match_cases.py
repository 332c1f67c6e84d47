"""Random cases of search, search_all and refine."""
import numpy as np

import oracle as o
from harness import (need, choose, chance, video_sizes, shrink, cells, draw_features, draw_moves, as_dtype, pick_dtype, Runner,
                     compare, compare_sum, to_options, usable, context)


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
