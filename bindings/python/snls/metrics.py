"""metrics.py: PSNR, SSIM and ST-RRED of NumPy arrays or PyTorch tensors in CPU memory, on the 0..255 scale."""
from __future__ import annotations

import ctypes

from . import _lib
from ._frames import as_array, channels_first, context, lend, ref
from ._hints import AnyArray, FrameLayout

_P = _lib._pointer
_psnr = _lib.function("snls_psnr", _lib._int, _P, _P, _P, _P)
_ssim = _lib.function("snls_ssim", _lib._int, _P, _P, _P, _P)
_strred = _lib.function("snls_strred", _lib._int, _P, _P, _P, _P)


class _Strred(ctypes.Structure):
    _fields_ = [("score", ctypes.c_double), ("spatial", ctypes.c_double), ("temporal", ctypes.c_double),
                ("reduced", ctypes.c_double), ("pairs", ctypes.c_int64), ("reduced_spatial", ctypes.c_double),
                ("reduced_temporal", ctypes.c_double), ("reserved", ctypes.c_double * 1)]


def _measure(name, function, clean, test, first, axes, result):
    clean, test = as_array(name + ": clean", clean), as_array(name + ": test", test)
    a, b = lend(name + ": clean", clean, first, axes), lend(name + ": test", test, first, axes)
    ctx = context(clean)
    ctx.call(function, ctx.handle, ref(a), ref(b), ref(result))
    return result


def psnr(clean: AnyArray, test: AnyArray) -> float:
    """10 log10(255^2 / MSE) over all elements of two arrays of one shape; inf where they are equal."""
    return _measure("psnr", _psnr, clean, test, False, None, ctypes.c_double()).value


def ssim(clean: AnyArray, test: AnyArray, layout: FrameLayout = "HWC") -> float:
    """Structural similarity of (H,W) or (H,W,C), or (C,H,W) with layout "CHW": windows of 7x7, as scikit-image's."""
    return _measure("ssim", _ssim, clean, test, channels_first(layout), (2, 3), ctypes.c_double()).value


def strred(clean: AnyArray, test: AnyArray, layout: FrameLayout = "HWC") -> dict[str, float]:
    """ST-RRED of clips (T,H,W,C), or (T,C,H,W) with layout "CHW": a dict with score, spatial, temporal, reduced, pairs."""
    r = _measure("strred", _strred, clean, test, channels_first(layout), (4,), _Strred())
    return {name: getattr(r, name) for name in ("score", "spatial", "temporal", "reduced", "pairs")}
