"""_dlpack.py: arrays of other libraries in (anything with __dlpack__), and Array, memory of ours that is given out by it.

https://dmlc.github.io/dlpack. Both protocols, with and without version, in both directions. What comes in is lent: it is
kept until the call is done, and its deleter is called once.
"""
from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

from . import _context, _lib
from ._plan import View, backend_of, contiguous

_api = ctypes.pythonapi
for _name, _result, _arguments in (
        ("PyCapsule_New", ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("PyCapsule_GetPointer", ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)),
        ("PyCapsule_GetName", ctypes.c_char_p, (ctypes.py_object,)),
        ("PyCapsule_SetName", ctypes.c_int, (ctypes.py_object, ctypes.c_char_p))):
    getattr(_api, _name).restype, getattr(_api, _name).argtypes = _result, _arguments
# The same functions for a capsule that is being destroyed, whose count of references may not be touched.
_dying_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", _api))
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

PLAIN, VERSIONED, USED, USED_VERSIONED = b"dltensor", b"dltensor_versioned", b"used_dltensor", b"used_dltensor_versioned"
DL_CPU, DL_CUDA = 1, 2
_CODES = {_lib.F32: (2, 32), _lib.F64: (2, 64), _lib.F16: (2, 16), _lib.BF16: (4, 16), _lib.I32: (0, 32)}
_from_versioned = _lib.function("snls_tensor_from_dlpack", _lib._int, *[_lib._pointer] * 3, _lib._int)
_from_plain = _lib.function("snls_tensor_from_dlpack_unversioned", _lib._int, *[_lib._pointer] * 3)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", Deleter)]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", Deleter),
                ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


# ---- in ----

def resolved(array):
    """array, or a copy of a tensor that is yet to be negated, which PyTorch exports as its memory is."""
    return array.resolve_neg() if hasattr(array, "resolve_neg") else array


def _export(array, stream):
    """The capsule of an array: the newer protocol where the array knows it."""
    array = resolved(array)
    keywords = {} if stream is None else {"stream": stream}
    try:
        return array.__dlpack__(max_version=(1, 0), **keywords)
    except TypeError:
        return array.__dlpack__(**keywords)


class Borrowed:
    """A view of an array that has __dlpack__. Given back when this object goes."""

    def __init__(self, array, context):
        self.struct = None
        on_cuda = hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == DL_CUDA
        capsule = _export(array, 1 if on_cuda else None)  # 1: CUDA's default stream, where our context works
        name = _api.PyCapsule_GetName(capsule)
        if name not in (PLAIN, VERSIONED):
            raise TypeError("snls: __dlpack__ of %s gave a capsule called %r" % (type(array).__name__, name))
        versioned = name == VERSIONED
        address, tensor = _api.PyCapsule_GetPointer(capsule, name), _lib.Tensor()
        arguments = (context.handle, ctypes.byref(tensor), address)
        self._call(context, *((_from_versioned, *arguments, 0) if versioned else (_from_plain, *arguments)))  # on failure the capsule still owns the tensor and gives it back itself
        self.struct = (ManagedVersioned if versioned else Managed).from_address(address)
        self.static_name = USED_VERSIONED if versioned else USED
        _api.PyCapsule_SetName(capsule, self.static_name)
        n = tensor.ndim
        self.data = tensor.data or 0
        self.view = View(tensor.shape[:n], tensor.stride[:n], tensor.dtype, tensor.device, tensor.device_id)

    @staticmethod
    def _call(context, function, *arguments):
        try:
            context.call(function, *arguments)
        except NotImplementedError as error:
            if "element type" in str(error):
                raise TypeError(str(error)) from None
            raise

    def __del__(self):
        struct, self.struct = self.struct, None
        if struct is not None and struct.deleter:
            struct.deleter(ctypes.addressof(struct))


# ---- out ----

_lent = {}  # address of a managed struct: what must live as long as the receiver


@Deleter
def _give_back(address):
    _lent.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _capsule_dies(capsule):
    name = _dying_name(capsule)
    if name in (PLAIN, VERSIONED):  # nobody took it
        _give_back(_dying_pointer(capsule, name))


class _Memory:
    """A device's memory for Arrays. They may be freed by any thread, so this context is shared, under a lock. A forked child leaves its
    parent's alone: the lock may be held by a thread that is not there."""
    _all = {}

    def __init__(self, backend, device):
        self.context, self.lock = _context.Context(backend, device), threading.RLock()  # an Array may go while another is made

    @classmethod
    def of(cls, *place):
        memory = cls._all.get(place)
        if memory is None or memory.context.pid != os.getpid():
            memory = cls._all[place] = cls(*place)
        return memory

    def take(self, size):
        out = ctypes.c_void_p()
        with self.lock:
            self.context.call(_lib.device_alloc, self.context.handle, ctypes.byref(out), size)
        return out.value

    def give(self, data):
        if not (os and _lib and _lib.device_free) or self.context.pid != os.getpid():  # gone where Python is about to end
            return
        with self.lock:
            if self.context.handle:
                _lib.device_free(self.context.handle, data)


class Array:
    """Memory of the library where its backend works, for callers without an array library on that device.

    Give it to yours: torch.from_dlpack(a), cupy.from_dlpack(a), numpy.from_dlpack(a). shape, dtype ("f32") and
    device ("cpu", "cuda:0") are as you expect; it holds its memory until nobody uses it any more."""

    def __init__(self, view: View) -> None:
        self._view, count = view, 1
        for n in view.shape:
            count *= n
        self._memory = _Memory.of(backend_of(view), view.device_id)
        self._data = self._memory.take(max(count, 1) * _lib.DTYPE_BYTES[view.dtype])

    @property
    def shape(self) -> tuple[int, ...]:
        return self._view.shape

    @property
    def dtype(self) -> str:
        return _lib.DTYPE_NAMES[self._view.dtype]

    @property
    def device(self) -> str:
        return "cpu" if self._view.device == _lib.CPU else "cuda:%d" % self._view.device_id

    def __repr__(self):
        return "snls.Array(shape=%s, dtype=%s, device=%s)" % (self.shape, self.dtype, self.device)

    def __del__(self):
        data, self._data = getattr(self, "_data", None), None
        if data:
            self._memory.give(data)

    def __reduce__(self):
        raise TypeError("snls.Array: cannot be copied or pickled: give it to an array library by its from_dlpack, and copy there")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (DL_CPU if self._view.device == _lib.CPU else DL_CUDA, self._view.device_id)

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError("snls.Array: is given out where it lies and without a copy only")
        versioned = max_version is not None and max_version[0] >= 1
        struct = ManagedVersioned(major=1, minor=0) if versioned else Managed()
        self._describe(struct.tensor, numbers := (ctypes.c_int64 * (2 * len(self.shape) or 1))())
        struct.deleter = _give_back
        address = ctypes.addressof(struct)
        _lent[address] = (struct, numbers, self)
        destructor = ctypes.cast(_capsule_dies, ctypes.c_void_p)
        return _api.PyCapsule_New(address, VERSIONED if versioned else PLAIN, destructor)

    def _describe(self, tensor, numbers):
        n, view = len(self.shape), self._view
        numbers[:2 * n] = view.shape + contiguous(view.shape)
        tensor.data, tensor.ndim, tensor.lanes = self._data, n, 1
        tensor.device_type, tensor.device_id = self.__dlpack_device__()
        tensor.code, tensor.bits = _CODES[view.dtype]
        step = ctypes.sizeof(ctypes.c_int64) * n
        tensor.shape = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
        tensor.strides = ctypes.cast(ctypes.addressof(numbers) + step, ctypes.POINTER(ctypes.c_int64))
