"""_frames.py: what the functions on frames have in common: arrays of NumPy or PyTorch as C structs, results as the same kind.

These functions work in CPU memory. layout "HWC": channels (or x, y) last; "CHW": third from the end.
"""
import ctypes

import numpy as np

from . import _context, _lib, _numpy, functional
from ._dlpack import resolved
from ._plan import View, contiguous, fill_tensor

_LAYOUTS = {"HWC": False, "CHW": True}
FLOAT_TYPES = ("float32", "float16", "bfloat16", "float64")
FRAME_TYPES = ("uint8", *FLOAT_TYPES)
FLOW_TYPES = ("float32", "float64")


def channels_first(layout):
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise ValueError("layout is %r, must be HWC or CHW" % (layout,))
    return _LAYOUTS[layout]


def _is_torch(array):
    """Is it a tensor, also of a subclass? Never where PyTorch is left alone (SNLS_TORCH=0): there a tensor is one more array with __dlpack__."""
    return isinstance(array, functional._Tensor)


def _words(types):
    return "%s or %s" % (", ".join(types[:-1]), types[-1])


def type_of(what, array, types=FRAME_TYPES):
    """The word for an array's element type, which is one of types."""
    if _is_torch(array):
        from . import _torch
        word = _lib.DTYPE_WORDS[_torch.code_of(what, array, _words(types))]
    else:
        word = _lib.DTYPE_WORDS[_numpy.dtype_code(what, array.dtype, _words(types))]
    if word not in types:  # int32, which operators have
        raise TypeError("%s is %s, must be %s" % (what, word, _words(types)))
    return word


def _view(what, array, types):
    type_of(what, array, types)
    if not _is_torch(array):
        return _numpy.view_of(what, array), array.__array_interface__["data"][0]
    from . import _torch
    view = _torch.view_of(what, array)
    if view.device != _lib.CPU:
        raise RuntimeError("%s is on %s, but this works in CPU memory: give %s.cpu()" % (what, array.device, what.split()[-1]))
    return view, array.data_ptr()


def as_array(what, array):
    """array as NumPy or PyTorch has it; other arrays that speak DLPack as NumPy arrays. The caller keeps it while its memory is in use."""
    if _is_torch(array):
        return resolved(array)
    if isinstance(array, np.ndarray):
        _numpy.refuse_masked(what, array)
        return array
    if hasattr(array, "__dlpack__"):
        return _taken(what, resolved(array))
    raise TypeError("%s is a %s: give a NumPy array, a PyTorch tensor or anything with __dlpack__" % (what, type(array).__name__))


def _taken(what, array):
    try:
        return np.from_dlpack(array)
    except (RuntimeError, BufferError) as error:  # of a GPU, or of elements that NumPy does not have, as bfloat16
        kind = TypeError if "dtype" in str(error) else RuntimeError
        raise kind("%s is a %s that NumPy cannot take: %s" % (what, type(array).__name__, error)) from None


def lend(what, array, first=False, axes=None, types=FRAME_TYPES):
    """A Tensor struct of an array, which must outlive it. axes: the numbers of axes that are allowed; types: of elements."""
    view, address = _view(what, array, types)
    if axes and len(view.shape) not in axes:
        raise ValueError("%s has %d axes, must have %s" % (what, len(view.shape), " or ".join(map(str, axes))))
    tensor = _lib.Tensor()
    fill_tensor(tensor, view, first and len(view.shape) >= 3)
    tensor.data = address
    return tensor


def new(like, shape, first=False, dtype=_lib.F32):
    """(array, Tensor struct) of a result of this logical shape (channels last), of the kind of like."""
    if first:
        shape = (*shape[:-3], shape[-1], shape[-3], shape[-2])
    if _is_torch(like):
        from . import _torch
        array = _torch.torch.empty(shape, dtype=_torch._DTYPES[dtype], device="cpu")  # where else torch.set_default_device may say
    else:
        array = _numpy.empty(View(shape, contiguous(shape), dtype))
    return array, lend("result", array, first)


def to_float32(array):
    """The same array where it is float32 already; of a tensor gradients pass."""
    return array.float() if _is_torch(array) else array.astype(np.float32, copy=False)


def logical(array, first=False):
    """The shape of an array with channels last."""
    shape = tuple(array.shape)
    return (*shape[:-3], shape[-2], shape[-1], shape[-3]) if first and len(shape) >= 3 else shape


def context(like):
    """The context to call with: as many threads as the caller's library uses."""
    if _is_torch(like):
        from . import _torch
        return _context.get("cpu", threads=_torch._num_threads())
    return _context.get("cpu")


ref = ctypes.byref  # itself, and no function that looks for ctypes: objects are closed when names of this file are gone
