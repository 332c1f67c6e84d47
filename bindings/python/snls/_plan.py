"""_plan.py: a call of the library, prepared once for each combination of parameters, shapes, strides and types.

A plan holds the C structs filled in but for the addresses; a call writes those and goes. Plans are kept for each thread.
Python may run something else between the two, a signal handler or what the garbage collector finishes, and that may make the
same call: a plan is busy meanwhile, and the call inside gets one of its own, which takes its place.
"""
import ctypes
import sys
import warnings

from . import _lib
from ._context import local
from ._operators import VIDEO_LIKE, check_ndim, output_dtypes

MOST_PLANS = 512
AXES = ", axes in the order of layout BTHWC"
TENSOR_BYTES = ctypes.sizeof(_lib.Tensor)


class View:
    """What is known of an array but its address: shape, strides in elements, element type, device."""
    __slots__ = ("shape", "stride", "dtype", "device", "device_id")

    def __init__(self, shape, stride, dtype, device=_lib.CPU, device_id=0):
        self.shape, self.stride, self.dtype = tuple(shape), tuple(stride), dtype
        self.device, self.device_id = device, device_id


def contiguous(shape):
    """Strides in elements of C order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _channels_last(axes):
    """The order of axes with the third from the end moved to the end."""
    return (*axes[:-3], axes[-2], axes[-1], axes[-3])


def fill_tensor(tensor, view, spatial_first=False):
    """Writes a view into a Tensor struct, without its address."""
    n = len(view.shape)
    if n > _lib.MAX_DIM:
        raise ValueError("snls: an array has %d axes, must have at most %d" % (n, _lib.MAX_DIM))
    order = _channels_last(tuple(range(n))) if spatial_first else range(n)
    tensor.dtype, tensor.device, tensor.device_id, tensor.ndim = view.dtype, view.device, view.device_id, n
    for i, axis in enumerate(order):
        tensor.shape[i], tensor.stride[i] = view.shape[axis], view.stride[axis]


class Block:
    """Memory of a C struct: params (optional), then tensors. words[at[i]] is the address of tensor i."""

    def __init__(self, param_bytes, tensors):
        size = param_bytes + TENSOR_BYTES * tensors
        self.bytes = (ctypes.c_char * size)()
        self.address = ctypes.addressof(self.bytes)
        self.words = (ctypes.c_uint64 * (size // 8)).from_buffer(self.bytes)
        self.at = tuple((param_bytes + TENSOR_BYTES * i) // 8 for i in range(tensors))
        self.param_bytes = param_bytes

    def tensor(self, i):
        return _lib.Tensor.from_buffer(self.bytes, self.param_bytes + TENSOR_BYTES * i)


def _check_agree(op, views):
    """One device, and one element type for query and key."""
    for name, view in zip(op.inputs, views):
        if view is None and name not in op.optional:
            raise TypeError("%s: %s is missing" % (op.name, name))
    first = views[0]
    for name, view in zip(op.inputs, views):
        if view is not None:
            _check_device(op, first, name, view)
    if op.inputs[:2] == ("query", "key") and views[0].dtype != views[1].dtype:
        raise TypeError("%s: query is %s and key is %s, they must have one element type"
                        % (op.name, _lib.DTYPE_WORDS[views[0].dtype], _lib.DTYPE_WORDS[views[1].dtype]))
    _check_numbers(op, views)


def _check_device(op, first, name, view):
    if (view.device, view.device_id) != (first.device, first.device_id):
        raise RuntimeError("%s: all arrays must be on one device, but %s is on %s and %s on %s"
                           % (op.name, op.inputs[0], device_text(first), name, device_text(view)))


def _check_numbers(op, views):
    """Flow, offsets, distances and weights are float32 (beside float64 videos: float64)."""
    videos = ("query", "key", "value")
    want = views[0].dtype if op.inputs[0] in videos else None
    want = _lib.F64 if _lib.F64 in (want, views[0].dtype) else _lib.F32
    for name, view in zip(op.inputs, views):
        if view is None or name in videos:
            if view is not None and view.dtype not in (_lib.F32, _lib.F64, _lib.F16, _lib.BF16):
                raise TypeError("%s: %s is %s, must be %s" % (op.name, name, _lib.DTYPE_WORDS[view.dtype], _lib.FLOATS))
        elif view.dtype != want:
            raise TypeError("%s: %s is %s, must be %s (videos may be float16 or bfloat16, other inputs may not)"
                            % (op.name, name, _lib.DTYPE_WORDS[view.dtype], _lib.DTYPE_WORDS[want]))


def device_text(view):
    return "cpu" if view.device == _lib.CPU else "cuda:%d" % view.device_id


def backend_of(view):
    """f64 is the reference backend's alone, and that works in CPU memory."""
    if view.device == _lib.CUDA:
        return "cuda"
    return "ref" if view.dtype == _lib.F64 else "cpu"


SMALL_WORK = 50000  # products; less is done sooner by one thread than other threads wake up, and gives the same bits


def _elements(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def _work(op, views, outputs, params):
    """About how many products a call takes: candidates, times patch, times channels."""
    value = lambda name: params[op.at[name]] if name in op.at else 1
    work = _elements(outputs[0].shape) * value("ps") ** 2
    if op.name == "search":
        work *= (2 * value("wt") + 1) * value("ws") ** 2
    elif op.name == "refine":
        work *= views[2].shape[5] * value("wr") ** 2
    if op.matches:
        work *= views[0].shape[2 if params[-1] else 4]
    elif op.inputs[0] == "value":
        work *= max(1, views[1].shape[5])
    return work


def _callers_level():
    """The stacklevel of a warning that is to name the line that called this package, directly or by way of PyTorch (a module's
    __call__, the dispatcher)."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (__package__, "torch"):
        frame, level = frame.f_back, level + 1
    return level


def plain_params(op, params):
    """params as ints, floats and strings: shapes are computed from them, in which np.uint8(16)**2 is 0 and 2.0 no length."""
    if type(params[-1]) is not bool:
        raise TypeError("%s: channels_first is %r, must be True or False" % (op.name, params[-1]))
    return (*[row.plain(op.name, value) for row, value in zip(op.params, params)], params[-1])


class Plan:
    """A forward call: block with inputs and outputs, the outputs' shapes and element types, and the backend."""
    busy = False

    def __init__(self, op, views, params):
        check_ndim(op, [v and v.shape for v in views])
        _check_agree(op, views)
        self.op, self.params, self.views = op, plain_params(op, params), views
        params = self.params
        self.backend, self.device, self.device_id = backend_of(views[0]), views[0].device, views[0].device_id
        self.block = Block(op.param_bytes, len(op.inputs) + len(op.outputs))
        self._store_params()
        shapes = op.shapes(op, [v and v.shape for v in views], params)
        dtypes = output_dtypes(op, views[0].dtype)
        self.outputs = tuple(View(s, contiguous(s), d, self.device, self.device_id) for s, d in zip(shapes, dtypes))
        for i, (name, view) in enumerate(zip(op.inputs + op.outputs, views + self.outputs)):
            self.fill(self.block, i, name, view)
        self.small = _work(op, views, self.outputs, params) < SMALL_WORK
        self.words, self.address = self.block.words, self.block.address
        self.input_at, self.output_at = self.block.at[:len(op.inputs)], self.block.at[len(op.inputs):]

    def wanted(self, outputs, with_index):
        """outputs, something for each output; or all but a search's index, which then has no address: the library leaves it out."""
        if with_index or not self.op.matches:
            return outputs
        self.words[self.output_at[-1]] = 0  # the plan may have served a call with it before
        return outputs[:-1]

    def _store_params(self):
        for row, value in zip(self.op.params, self.params):
            row.store(self.op.name, self.block.bytes, 0, value)
        for row in self.op.other_params:
            row.store(self.op.name, self.block.bytes, 0, row.default)

    def fill(self, block, i, name, view):
        if view is not None:
            fill_tensor(block.tensor(i), view, self.params[-1] and name in VIDEO_LIKE)

    def run(self, context):
        return self.call(context, self.op.forward, context.handle, self.address)

    def call(self, context, function, *arguments):
        """A function of the library on this plan; its status."""
        try:
            status = context.call(function, *arguments)
        except ValueError as error:
            if getattr(error, "status", 0) == _lib.ERR_SHAPE and self.params[-1]:  # the library knows one order of axes
                raise ValueError("%s%s" % (error, AXES)) from None
            raise
        if status == _lib.UNCOVERED:
            warnings.warn("%s: some pixels lie under no query patch and are 0 (ps too small for stride0)" % self.op.name,
                          stacklevel=_callers_level())
        return status


def _check_flow(op, view, params, dist):
    """The flow of a search, which the library looks at only where there is data. dist: shape of the distances."""
    shape, windows = list(view.shape), 2 * params[op.at["wt"]] + 1
    if params[-1]:
        shape = shape[:-3] + shape[-2:] + shape[-3:-2]
    slots = windows - 1 if shape[-4] == windows - 1 else windows
    heads = dist[1:2] if len(shape) == 7 else ()
    want = [dist[0], *heads, dist[2], slots, *dist[3:5], 2]
    if shape != want:
        text = lambda numbers: "(%s)" % ",".join(map(str, numbers))
        raise ValueError("%s: flow has shape %s, must be (B,%sT,2*wt or 2*wt+1,nH,nW,2) = %s%s"
                         % (op.name, text(shape), "heads," if heads else "", text(want), AXES if params[-1] else ""))


def check_without_data(op, views, params, context):
    """What a call refuses, for arrays that have a shape and a type but no data. A size that is not known yet (torch.compile) leaves
    numbers of axes, types and parameters to be checked."""
    if not all(type(n) is int for view in views if view is not None for n in view.shape):
        views = tuple(view and View((1,) * len(view.shape), (1,) * len(view.shape), view.dtype) for view in views)
        Plan(op, views, params)
        return
    plan = Plan(op, views, params)
    plan.call(context, op.shape, context.handle, plan.address)
    if "flow" in op.optional and views[2] is not None and 0 not in views[2].shape:  # without elements there is none
        _check_flow(op, views[2], params, plan.outputs[0].shape)


def _check_as_output(op, what, name, view, shape, backend):
    """An array of backward that belongs to the output name, which has this shape, in the caller's order of axes. Said here and not by the
    library, so that arrays with data and without hear the same."""
    text = lambda numbers: "(%s)" % ",".join(map(str, numbers))
    known = all(type(n) is int for n in view.shape + shape)
    if len(view.shape) != len(shape) or known and view.shape != shape:
        raise ValueError("%s: %s has shape %s, must be %s" % (op.name, what, text(view.shape), text(shape)))
    floats = (_lib.F32, _lib.F16, _lib.BF16, _lib.F64)
    takes = (_lib.I32,) if name == "index" else floats if backend == "ref" else floats[:3] if name == "out" else floats[:1]
    if view.dtype not in takes:
        raise TypeError("%s: %s is %s, must be %s" % (op.name, what, _lib.DTYPE_WORDS[view.dtype],
                                                      " or ".join(_lib.DTYPE_WORDS[t] for t in takes)))


def check_backward(op, views, params, saved, grads):
    """What a backward call takes beside the inputs. saved: views of op.saved; grads: of the incoming gradients, or None."""
    shapes = dict(zip(op.outputs, op.shapes(op, [v and v.shape for v in views], params)))
    given = [(name, name, view) for name, view in zip(op.saved, saved)]
    given += [("gradient of " + name, name, view) for name, view in zip(op.grads, grads)]
    for what, name, view in given:
        if view is not None:
            _check_device(op, views[0], what, view)
            _check_as_output(op, what, name, view, tuple(shapes[name]), backend_of(views[0]))


class BackwardPlan(Plan):
    """A backward call: as the forward call, and a second block with gradients by the outputs and by the inputs.

    saved: views of op.saved; grads: views of the incoming gradients or None; wanted: views of the gradients to add to, or
    None."""

    def __init__(self, op, views, params, saved, grads, wanted):
        super().__init__(op, views, params)
        check_backward(op, views, params, saved, grads)
        names = op.grads + op.inputs
        self.saved_at = tuple(self.output_at[op.outputs.index(name)] for name in op.saved)
        for name, view in zip(op.saved, saved):
            self.fill(self.block, len(op.inputs) + op.outputs.index(name), name, view)
        self.grad_block = Block(0, len(names))
        for i, (name, view) in enumerate(zip(names, tuple(grads) + tuple(wanted))):
            self.fill(self.grad_block, i, name, view)
        self.grad_words, self.grad_at = self.grad_block.words, self.grad_block.at
        self.read_at = self.input_at + self.saved_at

    def run(self, context):
        return self.call(context, self.op.backward, context.handle, self.address, self.grad_block.address)


def remember(key, plan):
    """Keeps a plan for this thread."""
    if len(local.plans) >= MOST_PLANS:
        local.plans.clear()
    local.plans[key] = plan
    return plan
