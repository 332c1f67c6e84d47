"""_torch.py: torch.ops.snls.*: schemas, CPU and CUDA kernels, shapes for fake and meta tensors, gradients, autocast.

Only torch.library.Library is used, which PyTorch has had since 1.13; nothing is compiled against it. For each operator
there are two functional ops, torch.ops.snls.<op> and torch.ops.snls.<op>_backward, whose last argument before the
parameters is a bit mask of the gradients that are wanted (a gradient that is not is an empty tensor). The searches have a
last argument with_index; where it is False the index is an empty tensor.

Autocast: videos (query, key, value) are brought to the autocast type like the operands of a matrix product; sums are
float32 in any case, and distances, offsets, weights and flow are brought to float32.
torch.use_deterministic_algorithms is obeyed; the CPU's gradients are always the same bits, a GPU's in this mode.
"""
import torch
from torch.autograd import forward_ad

from . import _context, _lib
from ._context import local
from ._operators import OPERATORS
from ._plan import BackwardPlan, Plan, View, check_backward, check_without_data, remember

_CODES = {torch.float32: _lib.F32, torch.float64: _lib.F64, torch.float16: _lib.F16, torch.bfloat16: _lib.BF16,
          torch.int32: _lib.I32, torch.uint8: _lib.U8}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_VIDEOS = ("query", "key", "value")
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # absent where torch was built without CUDA
_deterministic = torch.are_deterministic_algorithms_enabled
_num_threads, _device_zero = torch.get_num_threads, _lib.device_zero
_current_device = getattr(torch._C, "_cuda_getDevice", None)
_guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
_empty_cpu, _empty_cuda = getattr(_guards, "_empty_strided_cpu", None), getattr(_guards, "_empty_strided_cuda", None)


# ---- calls ----

def code_of(what, t, words=_lib.FLOATS):
    """The library's number of an element type; words: which there are, for a sentence."""
    if t.dtype not in _CODES:
        raise TypeError("%s is %s, must be %s" % (what, str(t.dtype).replace("torch.", ""), words))
    return _CODES[t.dtype]


def view_of(what, t):
    """The View of a tensor."""
    if t is None:
        return None
    code = code_of(what, t)
    if t.layout is not torch.strided:
        raise TypeError("%s is %s, must be a strided tensor" % (what, t.layout))
    if t.device.type not in ("cpu", "cuda"):
        raise RuntimeError("%s is on %s, must be on cpu or cuda" % (what, t.device))
    on_cuda = t.device.type == "cuda"
    return View(t.shape, t.stride(), code, _lib.CUDA if on_cuda else _lib.CPU, t.device.index or 0)


def key_of(t):
    """All that a plan depends on of a tensor."""
    return None if t is None else (t.shape, t.stride(), t.dtype, t.device)


def context_of(plan):
    """The context for a plan: on a GPU that of the current stream and mode."""
    if plan.backend != "cuda":
        return _context.get_for(plan, 0 if plan.small else _num_threads())
    device = plan.device_id
    return _context.get("cuda", device, _raw_stream(device), _deterministic())


def _views(op, names, tensors):
    return tuple(view_of("%s: %s" % (op.name, n), t) for n, t in zip(names, tensors))


def _maker(shape, stride, dtype, device):
    """A function that makes an empty tensor. What compiled code allocates with (PyTorch 2.2 and later) takes a third of the time of torch.empty."""
    if device.type == "cpu" and _empty_cpu:
        return lambda: _empty_cpu(shape, stride, dtype)
    if device.type == "cuda" and _empty_cuda:
        number = device.index
        return lambda: (_empty_cuda(shape, stride, dtype) if _current_device() == number
                        else torch.empty_strided(shape, stride, dtype=dtype, device=device))
    like = torch.empty(1, dtype=dtype, device=device).expand(shape)  # empty_like is quicker than empty, and this takes no memory
    if torch.empty_like(like).stride() == tuple(stride):
        return lambda: torch.empty_like(like)
    return lambda: torch.empty_strided(shape, stride, dtype=dtype, device=device)


def new_plan(op, tensors, params, key):
    plan = Plan(op, _views(op, op.inputs, tensors), params)
    device = tensors[0].device
    plan.makers = [_maker(v.shape, v.stride, _DTYPES[v.dtype], device) for v in plan.outputs]
    return remember(key, plan)


def run_forward(plan, tensors, with_index=True):
    """The outputs, a list; without the index where a search is told so."""
    try:
        plan.busy = True
        words = plan.words
        for at, t in zip(plan.input_at, tensors):
            if t is not None:
                words[at] = t.data_ptr()
        outputs = [make() for make in plan.wanted(plan.makers, with_index)]
        for at, t in zip(plan.output_at, outputs):
            words[at] = t.data_ptr()
        plan.run(context_of(plan))
    finally:
        plan.busy = False
    return outputs


def _split_forward(op, args):
    """(inputs, parameters, with_index) of a call of <op>."""
    count = len(op.inputs)
    full = count + len(op.defaults)
    if len(args) < full:  # PyTorch leaves trailing defaults out
        args += ((None,) * count + op.defaults)[len(args):]
    return args[:count], args[count:full], args[full] if len(args) > full else True


def _no_index(first):
    """What an op returns in place of the index that nobody wants."""
    return first.new_empty(0, dtype=torch.int32)


def _forward(op):
    """The kernel of an operator for CPU and CUDA tensors."""
    name = op.name
    result = (lambda outputs: outputs[0]) if len(op.outputs) == 1 else tuple

    def forward(*args):
        tensors, params, with_index = _split_forward(op, args)
        key = (name, params, *map(key_of, tensors))
        plan = local.plans.get(key)
        if plan is None or plan.busy:
            plan = new_plan(op, tensors, params, key)
        outputs = run_forward(plan, tensors, with_index)
        return result(outputs if with_index else outputs + [_no_index(outputs[0])])
    return forward


def _split_backward(op, args):
    """(incoming gradients, inputs, saved outputs, mask, parameters) of a call of <op>_backward."""
    g, n, s = len(op.grads), len(op.inputs), len(op.saved)
    full = g + n + s + 1 + len(op.defaults)
    if len(args) < full:
        args += op.defaults[len(args) - full:]
    return args[:g], args[g:g + n], args[g + n:g + n + s], args[g + n + s], args[g + n + s + 1:]


def _new_gradients(inputs, mask):
    """Zeros to add to, with the strides of the inputs; an empty tensor where none is wanted."""
    like = next(t for t in inputs if t is not None)
    return tuple(torch.zeros_like(t) if t is not None and mask >> i & 1 else like.new_empty(0)
                 for i, t in enumerate(inputs))


def new_backward_plan(op, given, key):
    """given: as _split_backward returns it."""
    grads, inputs, saved, mask, params = given
    wanted = _new_gradients(inputs, mask)
    out = [view if mask >> i & 1 and inputs[i] is not None else None for i, view in enumerate(_views(op, op.inputs, wanted))]
    plan = BackwardPlan(op, _views(op, op.inputs, inputs), params, _views(op, op.saved, saved),
                        _views(op, ["gradient of " + n for n in op.grads], grads), out)
    plan.makers = [v and _maker(v.shape, v.stride, t.dtype, t.device) for v, t in zip(out, wanted)]
    plan.sizes = [0 if v is None else t.numel() * t.element_size() for v, t in zip(out, wanted)]
    return remember(key, plan)


def new_zeros(plan, context, inputs):
    """Gradients to add to, as zeros_like makes them; None where none is wanted. On a GPU zeroed without a kernel, which is a little quicker."""
    if plan.backend != "cuda":
        return tuple([torch.zeros_like(t) if maker else None for t, maker in zip(inputs, plan.makers)])
    made = tuple([make() if make else None for make in plan.makers])
    for t, size in zip(made, plan.sizes):
        if size:
            context.call(_device_zero, context.handle, t.data_ptr(), size)
    return made


def run_backward(plan, context, grads, tensors, wanted):
    """Adds to the tensors of wanted; None where none is. tensors: inputs, then what was saved."""
    try:
        plan.busy = True
        words, grad_words = plan.words, plan.grad_words
        for at, t in zip(plan.read_at, tensors):
            if t is not None:
                words[at] = t.data_ptr()
        for at, t in zip(plan.grad_at, grads + wanted):
            if t is not None:
                grad_words[at] = t.data_ptr()
        plan.run(context)
    finally:
        plan.busy = False


def _backward(op):
    """The kernel of <op>_backward for CPU and CUDA tensors."""
    name = op.name + "_backward"
    result = (lambda outputs: outputs[0]) if len(op.inputs) == 1 else tuple

    def backward(*args):
        given = grads, inputs, saved, mask, params = _split_backward(op, args)
        key = (name, params, mask, *map(key_of, grads + inputs + saved))
        plan = local.plans.get(key)
        if plan is None or plan.busy:
            plan = new_backward_plan(op, given, key)
        context = context_of(plan)
        wanted = new_zeros(plan, context, inputs)
        run_backward(plan, context, grads, inputs + saved, wanted)
        return result([inputs[0].new_empty(0) if t is None else t for t in wanted])
    return backward


# ---- shapes without data ----

def _dtype_like(name, t):
    numbers = torch.float64 if t.dtype == torch.float64 else torch.float32
    return torch.int32 if name == "index" else t.dtype if name == "out" else numbers


def _bare_view(what, t):
    """Of a tensor without data: strides are of no account, and the device is none."""
    return None if t is None else View(t.shape, (1,) * t.dim(), code_of(what, t))


def _bare_views(op, names, tensors, first):
    """first: one of the inputs, on whose device all must be: one meta tensor among others brings a call here, and nobody would compute."""
    for name, t in zip(names, tensors):
        if t is not None and t.device != first.device:
            raise RuntimeError("%s: all arrays must be on one device, but %s is on %s and %s on %s"
                               % (op.name, op.inputs[0], first.device, name, t.device))
    return tuple(_bare_view("%s: %s" % (op.name, n), t) for n, t in zip(names, tensors))


def _fake_forward(op):
    def fake(*args):
        tensors, params, with_index = _split_forward(op, args)
        first = tensors[0]
        check_without_data(op, _bare_views(op, op.inputs, tensors, first), params, _context.get("cpu"))
        shapes = op.shapes(op, [None if t is None else t.shape for t in tensors], params)
        outputs = tuple(first.new_empty(shape, dtype=_dtype_like(name, first)) for name, shape in zip(op.outputs, shapes))
        if not with_index:
            outputs = (*outputs[:-1], _no_index(first))
        return outputs[0] if len(outputs) == 1 else outputs
    return fake


def _fake_backward(op):
    def fake(*args):
        grads, inputs, saved, mask, params = _split_backward(op, args)
        views = [_bare_views(op, names, tensors, inputs[0]) for names, tensors in
                 ((op.inputs, inputs), (op.saved, saved), (["gradient of " + n for n in op.grads], grads))]
        check_without_data(op, views[0], params, _context.get("cpu"))
        check_backward(op, views[0], params, views[1], views[2])
        wanted = _new_gradients(inputs, mask)
        return wanted[0] if len(wanted) == 1 else wanted
    return fake


# ---- gradients ----

_Guard = torch._C._AutoDispatchBelowAutograd
if hasattr(_Guard, "__enter__"):
    def _below_autograd(call, *args):
        with _Guard():
            return call(*args)
else:  # PyTorch 1.13: in force as long as the object lives
    def _below_autograd(call, *args):
        guard = _Guard()
        try:
            return call(*args)
        finally:
            del guard


_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
_SingleLevel = getattr(torch.autograd.function, "_SingleLevelFunction", None)  # PyTorch 2.0 and later
if _SingleLevel is not None:
    from torch._functorch.utils import enable_single_level_autograd_function as _at_this_level


def _function(name, forward, setup, backward):
    """The apply of an autograd.Function. forward(*args); setup(ctx, args, output).

    A kernel under the key Autograd runs at one level of the transforms of torch.func, with the tensors of that level, and what it
    calls below goes on to the next: a node of this level is all that it has to record."""
    def both(ctx, *args):  # PyTorch 1.13 knows nothing else, and later ones call it sooner
        output = forward(*args)
        setup(ctx, args, output)
        return output

    def lower(*args):  # apply switches both off, for the levels below too
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return forward(*args)
    made = lambda base, **methods: type(name, (base,), {n: staticmethod(f) for n, f in methods.items()}).apply
    usual = made(torch.autograd.Function, forward=both, backward=backward)
    single = _SingleLevel and made(_SingleLevel, forward=lower, setup_context=setup, backward=backward)

    def apply(*args):
        if not _transforms_active():
            return usual(*args)
        if single is None:
            raise NotImplementedError("snls: gradients within transforms of functorch need PyTorch 2, where they are torch.func; this is PyTorch %s" % torch.__version__)
        with _at_this_level():
            return single(*args)
    return apply


def _refuse_tangents(tensors):
    """Forward mode would pass through the operators as if they were constant."""
    if any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise NotImplementedError("snls: the operators have gradients backward only, not in forward mode (dual tensors, jvp)")


def needs_grad(tensors):
    if getattr(forward_ad, "_current_level", -1) >= 0:
        _refuse_tangents(tensors)
    return torch.is_grad_enabled() and any([t is not None and t.requires_grad for t in tensors])


def _stops(op, needs):
    """Outputs without gradient: numbers of candidates, and offsets where no gradient to flow (or centre) is wanted, which
    spares the aggregation that reads them the work. needs: which inputs need a gradient."""
    if not op.matches:
        return ()
    return ("index",) if needs[2] else ("index", "offset")


def long_backward(op, call_backward, wants, grads, inputs, saved, params):
    """Gradients by the inputs (None where none is wanted) by way of the backward op. grads: by the outputs that have one."""
    mask = sum(1 << i for i, t in enumerate(inputs) if wants[i] and t is not None)
    if not mask or all(g is None for g in grads):
        return (None,) * len(inputs)
    found = call_backward(*grads, *inputs, *saved, mask, *params)
    found = found if isinstance(found, tuple) else (found,)
    return tuple(f if mask >> i & 1 else None for i, f in enumerate(found))


def _make_function(op, call, call_backward):
    """The autograd.Function of an operator, applied to (params, *inputs)."""
    count = len(op.inputs)

    def forward(params, *inputs):
        outputs = _below_autograd(call, *inputs, *params)  # with the index, which backward reads
        return outputs if isinstance(outputs, tuple) else (outputs,)

    def setup(ctx, args, outputs):
        ctx.save_for_backward(*args[1:], *[outputs[op.outputs.index(name)] for name in op.saved])
        ctx.params = args[0]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[outputs[op.outputs.index(n)] for n in _stops(op, ctx.needs_input_grad[1:])])

    def backward(ctx, *grads):
        tensors = ctx.saved_tensors  # asked for once: torch.utils.checkpoint gives them up as they are read
        inputs, saved = tensors[:count], tensors[count:]
        by_name = dict(zip(op.outputs, grads))
        grads = tuple(by_name[n] for n in op.grads)
        return None, *long_backward(op, call_backward, ctx.needs_input_grad[1:], grads, inputs, saved, ctx.params)
    return _function("Snls_" + op.name, forward, setup, backward)


def _autograd(op, function, call):
    """The kernel under the key Autograd."""
    count, single = len(op.inputs), len(op.outputs) == 1

    def autograd(*args):
        if needs_grad(args[:count]):
            tensors, params, with_index = _split_forward(op, args)
            outputs = function(params, *tensors)
            if not with_index:
                outputs = (*outputs[:-1], _no_index(outputs[0].detach()))
            return outputs[0] if single else outputs
        return _below_autograd(call, *args)
    return autograd


def _refuse_again(ctx, *grads):
    raise NotImplementedError("snls: the operators have first derivatives only, so gradients cannot be differentiated again")


# A backward op inside a graph that is to be differentiated again: refused when that happens, not silently 0.
_once = _function("Snls_once", _below_autograd, lambda ctx, args, output: None, _refuse_again)


def _autograd_backward(call):
    """The kernel of a backward op under the key Autograd."""
    def autograd(*args):
        if torch.is_grad_enabled() and any([isinstance(a, torch.Tensor) and a.requires_grad for a in args]):
            return _once(call, *args)
        return _below_autograd(call, *args)
    return autograd


# ---- torch.func.vmap ----

def _vmap(call, single):
    """The rule of an op for vmap: the axis that is mapped over joins B, the first axis of every tensor."""
    def rule(info, in_dims, *args):
        size = info.batch_size

        def fold(a, axis):
            if not isinstance(a, torch.Tensor):
                return a
            return (a.expand(size, *a.shape) if axis is None else a.movedim(axis, 0)).flatten(0, 1)
        batch = next(a.shape[0 if axis is None or axis else 1] for a, axis in zip(args, in_dims) if isinstance(a, torch.Tensor))
        outputs = call(*map(fold, args, in_dims))
        outputs = (outputs,) if single else outputs
        missing = [t.dim() == 1 for t in outputs]  # what was not wanted: the empty tensor
        outputs = tuple(t if no else t.unflatten(0, (size, batch)) for t, no in zip(outputs, missing))
        dims = tuple(None if no else 0 for no in missing)
        return (outputs[0], dims[0]) if single else (outputs, dims)
    return rule


def _register_vmap(name, call, single):
    if hasattr(torch.library, "register_vmap"):  # PyTorch 2.5; others take the elements one after the other, and warn
        torch.library.register_vmap("snls::" + name, _vmap(call, single), lib=_libraries[0])


# ---- autocast ----

def _autocast_dtype(device):
    if hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(device)
    return torch.get_autocast_gpu_dtype() if device == "cuda" else torch.get_autocast_cpu_dtype()


def _autocast(op, names, call, device):
    """The kernel under the key Autocast<device>: types, then the call below this key."""
    def cast(name, t, dtype):
        if t is None or not t.is_floating_point() or t.dtype == torch.float64:
            return t
        return t.to(dtype if name in _VIDEOS else torch.float32)

    def autocast(*args):
        dtype = _autocast_dtype(device)
        tensors = [cast(name, t, dtype) for name, t in zip(names, args)]
        with torch.autocast(device, enabled=False):
            return call(*tensors, *args[len(tensors):])
    return autocast


# ---- registration ----

def _schema_params(op):
    kinds = {"int": "int", "real": "float", "enum": "str"}
    rows = ["%s %s=%s" % (kinds[row.kind], "kind" if row.name in op.inputs else row.name,
                          '"%s"' % row.default if row.names else repr(row.default)) for row in op.params]
    return rows + ["bool channels_first=False"]


def _schemas(op):
    """Schemas of the forward and the backward op."""
    inputs = ["Tensor%s %s" % ("?" if n in op.optional else "", n) for n in op.inputs]
    first = ["%s=None" % text if n in op.optional else text for n, text in zip(op.inputs, inputs)]
    results = lambda n: "Tensor" if n == 1 else "(%s)" % ", ".join(["Tensor"] * n)
    params, last = _schema_params(op), ["bool with_index=True"] if op.matches else []
    grads = ["Tensor? grad_%s" % n for n in op.grads]
    saved = ["Tensor saved_%s" % n for n in op.saved]
    return ("%s(%s) -> %s" % (op.name, ", ".join(first + params + last), results(len(op.outputs))),
            "%s_backward(%s) -> %s" % (op.name, ", ".join(grads + inputs + saved + ["int wanted"] + params),
                                       results(len(op.inputs))))


_libraries = [torch.library.Library("snls", "DEF")]


def _register_fake(name, kernel):
    if hasattr(torch.library, "register_fake"):
        torch.library.register_fake("snls::" + name, kernel, lib=_libraries[0])
    else:
        _libraries[0].impl(name, kernel, "Meta")


def _define(schema):
    tag = getattr(torch.Tag, "pt2_compliant_tag", None) if hasattr(torch, "Tag") else None
    if tag is None:
        _libraries[0].define(schema)
    else:
        _libraries[0].define(schema, tags=(tag,))


def _register(op):
    define = _libraries[0]
    for schema in _schemas(op):
        _define(schema)
    call = getattr(torch.ops.snls, op.name).default
    call_backward = getattr(torch.ops.snls, op.name + "_backward").default
    forward, backward = _forward(op), _backward(op)
    for key in ("CPU", "CUDA"):
        define.impl(op.name, forward, key)
        define.impl(op.name + "_backward", backward, key)
    _register_fake(op.name, _fake_forward(op))
    _register_fake(op.name + "_backward", _fake_backward(op))
    function = _make_function(op, call, call_backward)
    define.impl(op.name, _autograd(op, function, call), "Autograd")
    define.impl(op.name + "_backward", _autograd_backward(call_backward), "Autograd")
    _register_vmap(op.name, call, len(op.outputs) == 1)
    _register_vmap(op.name + "_backward", call_backward, len(op.inputs) == 1)
    for device in ("CPU", "CUDA"):
        define.impl(op.name, _autocast(op, op.inputs, call, device.lower()), "Autocast" + device)
    return op, call, call_backward


REGISTERED = {op.name: _register(op) for op in OPERATORS.values()}
