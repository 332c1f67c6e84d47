"""Random cases of flow_compose, weights and aggregation."""
import numpy as np

import oracle as o
from harness import (to_options, Failure, need, choose, chance, video_sizes, shrink, cells, draw_moves, as_dtype, pick_dtype, Runner, compare,
                     compare_sum, usable, context)


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
