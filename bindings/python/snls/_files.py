"""_files.py: pictures in files, as the library reads and writes them. Not every build does: a wheel leaves this to others."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import _context, _lib
from ._frames import as_array, channels_first, lend, ref
from ._hints import AnyArray, FrameLayout, Path

_P = _lib._pointer
_png_write = _lib.function("snls_png_write", _lib._int, _P, _lib._text, _P)
_image_read = _lib.function("snls_image_read", _lib._int, _P, _lib._text, _P)
_array_free = _lib.function("snls_array_free", None, _P, _P)


def png_write(path: Path, image: AnyArray, layout: FrameLayout = "HWC") -> None:
    """Writes (H,W,1) or (H,W,3), or (C,H,W) with layout "CHW", as an 8-bit PNG; floats are 0..255, rounded and clamped."""
    image = as_array("png_write: image", image)
    given, ctx = lend("png_write: image", image, channels_first(layout), (3,)), _context.get("cpu")
    ctx.call(_png_write, ctx.handle, _lib.path_bytes(path), ref(given))


def image_read(path: Path) -> Any:
    """A PNG or JPEG as a NumPy array (H,W,1) or (H,W,3), uint8; of a 16-bit PNG float32, 0..255."""
    tensor, ctx = _lib.Tensor(), _context.get("cpu")
    with _lib.reading(path):
        ctx.call(_image_read, ctx.handle, _lib.path_bytes(path), ref(tensor))
    shape, dtype = tuple(tensor.shape[:tensor.ndim]), np.uint8 if tensor.dtype == _lib.U8 else np.float32
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    try:
        return np.frombuffer(ctypes.string_at(tensor.data, count), dtype).reshape(shape).copy()
    finally:
        _array_free(ctx.handle, ref(tensor))
