"""Coordinates, bounded sums, and reading a video between pixels: what all operators of oracle.py stand on (docs/operators.md, section 1)."""
from types import SimpleNamespace

import numpy as np


# ---- section 1: coordinates ----

def reflect(x, L):
    """The triangle wave of period 2(L-1), for integers and reals; exact in floating point (fmod is, and so is P - m for m >= P/2)."""
    x = np.asarray(x, np.float64)
    if L == 1:
        return np.zeros_like(x)
    period = 2.0 * (L - 1)
    m = np.fmod(np.abs(x), period)
    return np.where(m > L - 1, period - m, m)


def reflect_slope(x, L):
    """Its derivative as section 6 wants it: -1 strictly inside the descending branch, else +1; 0 for L = 1."""
    x = np.asarray(x, np.float64)
    if L == 1:
        return np.zeros_like(x)
    m = np.fmod(np.abs(x), 2.0 * (L - 1))                       # the wave is even: x < 0 descends where |x| ascends
    down = np.where(x < 0, (m > 0) & (m < L - 1), m > L - 1)
    return np.where(down, -1.0, 1.0)


def grid(L, stride0):
    return np.arange(0, L, stride0)                             # ceil(L/stride0) positions


def patch(P):
    return P.dilation * (np.arange(P.ps) - P.ps // 2)


def inside(z, L):
    return (z >= 0) & (z <= L - 1)


def as_heads(video, heads):
    """[B,T,H,W,C] -> [B,T,H,W,heads,F], float64"""
    B, T, H, W, C = video.shape
    return np.asarray(video, np.float64).reshape(B, T, H, W, heads, C // heads)


def queries(B, heads, T, H, W, stride0):
    """Batch, head, time, row and column position of every query, in the order of dist"""
    b, h, t, y, x = np.meshgrid(np.arange(B), np.arange(heads), np.arange(T), grid(H, stride0), grid(W, stride0), indexing="ij")
    return SimpleNamespace(b=b.ravel(), h=h.ravel(), t=t.ravel(), y=y.ravel(), x=x.ravel(), n=b.size,
                           shape=(B, heads, T, len(grid(H, stride0)), len(grid(W, stride0))))


class Sum:
    """A sum by scatter: value, number of terms, sum of |term|, the interpolation's share of the error in units of eps,
    and the share of the places (always f64) in units of 2^-52"""
    PARTS = ("value", "terms", "size", "blur", "drift")

    def __init__(self, shape):
        self.shape = tuple(shape)
        size = int(np.prod(shape))
        for name in self.PARTS:
            setattr(self, name, np.zeros(size))

    def add(self, where, value, blur=0.0, size=None, terms=1.0, drift=0.0):
        """where: tuple of index arrays; value has their shape, or one trailing axis more (the last axis of the sum)"""
        where = np.ravel_multi_index(where, self.shape[:len(where)]) if len(where) else np.zeros(value.shape[:1], int)
        if value.ndim > where.ndim:
            where = where[..., None] * value.shape[-1] + np.arange(value.shape[-1])
        flat, n = where.ravel(), self.value.size
        for total, part in ((self.value, value), (self.terms, terms), (self.size, np.abs(value) if size is None else size), (self.blur, blur),
                            (self.drift, drift)):
            if np.ndim(part) or part:
                total += np.bincount(flat, np.broadcast_to(part, where.shape).ravel(), n)

    def done(self, scale=1.0):
        """Arrays in their shape, value and bounds multiplied by `scale`"""
        for name in self.PARTS:
            setattr(self, name, getattr(self, name).reshape(self.shape) * (1.0 if name == "terms" else scale))   # scale >= 0
        return self

    def bound(self, eps, extra=2):
        return eps * ((self.terms + extra) * self.size + self.blur) + 2.0 ** -52 * self.drift


# ---- reading a video at real places ----

def taps(z, L):
    """The two taps of a coordinate in [0, L-1] and their weights; the upper one mirrored beyond the last row"""
    low = np.floor(z)
    high = low + 1
    f = z - low
    return low.astype(np.int64), reflect(high, L).astype(np.int64), 1.0 - f, f


class Read:
    """Bilinear read of V [B,T,H,W,heads,F] at M places. value, A (sum of w|tap|): [M,F]; slopes on demand"""

    def __init__(self, V, b, frame, h, zy, zx):
        self.V, self.b, self.f, self.h = V, b, frame, h
        self.H, self.W = V.shape[2:4]
        self.ty, self.tx = taps(zy, self.H), taps(zx, self.W)
        self.value, self.A = self.combine([(w, y, x, 1.0) for y, x, w in self.four()])

    def four(self):
        (y0, y1, wy0, wy1), (x0, x1, wx0, wx1) = self.ty, self.tx
        return [(y0, x0, wy0 * wx0), (y0, x1, wy0 * wx1), (y1, x0, wy1 * wx0), (y1, x1, wy1 * wx1)]

    def combine(self, parts):
        value = size = 0.0
        for w, y, x, sign in parts:                             # a tap of weight 0 is not read
            v = np.where((w != 0)[:, None], self.V[self.b, self.f, y, x, self.h], 0.0)
            value = value + sign * w[:, None] * v
            size = size + w[:, None] * np.abs(v)
        return value, size

    def slope_y(self):
        (y0, y1, _, _), (x0, x1, wx0, wx1) = self.ty, self.tx
        return self.combine([(wx0, y1, x0, 1.0), (wx1, y1, x1, 1.0), (wx0, y0, x0, -1.0), (wx1, y0, x1, -1.0)])

    def slope_x(self):
        (y0, y1, wy0, wy1), (x0, x1, _, _) = self.ty, self.tx
        return self.combine([(wy0, y0, x1, 1.0), (wy1, y1, x1, 1.0), (wy0, y0, x0, -1.0), (wy1, y1, x0, -1.0)])

    def scatter(self, total, g, blur):
        """total[taps] += w g, without the taps of weight 0"""
        for y, x, w in self.four():
            on = w != 0
            blur_on = (w[:, None] * blur)[on] if np.ndim(blur) else blur
            total.add((self.b[on], self.f[on], y[on], x[on], self.h[on]), (w[:, None] * g)[on], blur_on)
