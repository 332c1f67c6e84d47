"""_numpy.py: calls with NumPy arrays, and with arrays of other libraries through DLPack."""
import numpy as np

from . import _context, _lib
from ._context import local
from ._dlpack import Array, Borrowed
from ._operators import OPERATORS
from ._plan import Plan, View, remember

_CODES = {np.dtype("float32"): _lib.F32, np.dtype("float64"): _lib.F64, np.dtype("float16"): _lib.F16,
          np.dtype("int32"): _lib.I32, np.dtype("uint8"): _lib.U8}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
torch_used = False  # where PyTorch is left alone its tensors are arrays like any other


def dtype_code(what, dtype, words=_lib.FLOATS):
    """The library's number of an element type; words: which there are, for a sentence."""
    code = _CODES.get(dtype)
    if code is None and dtype.name == "bfloat16":  # of the package ml_dtypes
        return _lib.BF16
    if code is None:
        raise TypeError("%s is %s, must be %s in this machine's byte order" % (what, dtype, words))
    return code


def view_of(what, array):
    """The View of a NumPy array; elements must be aligned to their size."""
    size = array.itemsize
    if any(s % size for s in array.strides) or not array.flags.aligned:
        raise ValueError("%s has elements that do not lie on multiples of their size" % what)
    return View(array.shape, (s // size for s in array.strides), dtype_code(what, array.dtype))


def empty(view, like=None):
    """A new C-ordered array; like: one of the inputs, for bfloat16, which NumPy itself does not have."""
    dtype = like.dtype if like is not None and view.dtype == _lib.BF16 else _DTYPES[view.dtype]
    return np.empty(view.shape, dtype)


def refuse_masked(what, array):
    """Elements that are masked would be read like any other."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("%s is a masked array, and masks are not looked at: give what stands for masked elements, by its filled()" % what)


def _is_numpy(op, arrays):
    for a in arrays:
        if type(a) is not np.ndarray and a is not None:
            return _are_subclasses(op, arrays)
    return True


def _are_subclasses(op, arrays):
    for name, a in zip(op.inputs, arrays):
        refuse_masked("%s: %s" % (op.name, name), a)
    return all(a is None or isinstance(a, np.ndarray) for a in arrays)


def call(name, arrays, params, with_index=True):
    """One forward call; its output, or a tuple of its outputs, as new arrays; without the index where a search is told so."""
    op = OPERATORS[name]
    if not _is_numpy(op, arrays):
        return _call_foreign(op, arrays, params, with_index)
    key = (name, "numpy", params, *[None if a is None else (a.shape, a.strides, a.dtype) for a in arrays])
    plan = local.plans.get(key)
    if plan is None or plan.busy:
        views = tuple(None if a is None else view_of("%s: %s" % (name, n), a) for n, a in zip(op.inputs, arrays))
        plan = remember(key, Plan(op, views, params))
    try:
        plan.busy = True
        words = plan.words
        for at, array in zip(plan.input_at, arrays):
            if array is not None:
                words[at] = array.__array_interface__["data"][0]
        outputs = tuple([empty(view, arrays[0]) for view in plan.wanted(plan.outputs, with_index)])
        for at, array in zip(plan.output_at, outputs):
            words[at] = array.__array_interface__["data"][0]
        plan.run(_context.get_for(plan))
    finally:
        plan.busy = False
    return outputs if len(outputs) > 1 else outputs[0]


# ---- other libraries ----

def _device_of(array):
    return array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else (1, 0)


def _refuse(op, array):
    raise TypeError("%s: a %s is no array: give NumPy arrays, PyTorch tensors or anything with __dlpack__"
                    % (op.name, type(array).__name__))


def _call_foreign(op, arrays, params, with_index):
    """Arrays with __dlpack__. Results are NumPy arrays on the CPU, and snls.Array on a GPU."""
    given = [a for a in arrays if a is not None]
    for array in given:
        if not hasattr(array, "__dlpack__"):
            _refuse(op, array)
    if torch_used and len({type(array).__module__.split(".")[0] for array in given} & {"torch", "numpy"}) > 1:
        raise TypeError("%s: NumPy arrays and PyTorch tensors cannot be mixed in one call" % op.name)
    device, number = _device_of(given[0])
    context = _context.get("cuda", number) if device == 2 else _context.get("cpu")
    borrowed = [a if a is None else Borrowed(a, context) for a in arrays]
    plan = Plan(op, tuple(b and b.view for b in borrowed), params)
    if plan.backend != "cuda":
        context = _context.get_for(plan)
    for at, b in zip(plan.input_at, borrowed):
        if b is not None:
            plan.words[at] = b.data
    return _run_foreign(plan, context, plan.wanted(plan.outputs, with_index))


def _run_foreign(plan, context, views):
    if plan.backend == "cuda" or _lib.BF16 in [v.dtype for v in views]:  # NumPy has no bfloat16
        outputs = tuple(Array(view) for view in views)
        addresses = [a._data for a in outputs]
    else:
        outputs = tuple(empty(view) for view in views)
        addresses = [a.__array_interface__["data"][0] for a in outputs]
    for at, address in zip(plan.output_at, addresses):
        plan.words[at] = address
    plan.run(context)
    context.wait()  # the inputs are given back when this returns
    return outputs if len(outputs) > 1 else outputs[0]
