"""What the random cases share: drawing sizes and arrays, running the program, comparing within a bound."""
import os
import shlex
import signal
import subprocess

import numpy as np

EPS = {np.dtype("f4"): 2.0 ** -23, np.dtype("f8"): 2.0 ** -52}


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


def to_options(P, skip=()):
    out = []
    for name, value in P.items():
        if name not in skip:
            out += ["--" + name, repr(value) if isinstance(value, float) else str(value)]
    return out


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
