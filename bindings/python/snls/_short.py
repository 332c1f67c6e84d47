"""_short.py: the short way of a call with PyTorch tensors, past the dispatcher.

A call that nobody watches (eager, no autocast, no mode, no transform, no profiler, tensors of no special class) goes to the
library at once, forward and backward; any other goes to torch.ops.snls.*, which gives the same.
"""
import threading

import torch

from ._context import local
from ._plan import plain_params
from ._torch import (REGISTERED, context_of, key_of, long_backward, needs_grad, new_backward_plan, new_plan, new_zeros,
                     run_backward, run_forward)

_PLAIN = (torch.Tensor, torch.nn.Parameter)
TRACED = (torch.Tensor, torch.fx.Proxy)  # a proxy stands for a tensor while torch.fx.symbolic_trace writes down what is called
_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or (lambda: False)
_grad_enabled = torch.is_grad_enabled


# ---- does anybody watch? ----
# PyTorch keeps what is switched on in two sets of keys for each thread.

_included, _excluded = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set
_function_modes, _profiler_on = torch._C._len_torch_function_stack, torch.autograd._profiler_enabled


def _in_new_thread(function):
    """What function returns in a thread where nobody has switched anything on; this one may be inside some mode."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def _bits(key):
    """A set of one key, as a number; 0 where this PyTorch has no such key."""
    try:
        return torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key)).raw_repr()
    except RuntimeError:
        return 0


if hasattr(_included(), "raw_repr"):
    _usual = _in_new_thread(lambda: (_included().raw_repr(), _excluded().raw_repr()))
    _usual = (_usual, (_usual[0], _usual[1] | _bits("Named")))  # names are switched off in a backward pass; PyTorch 2.15 has none

    def unwatched():
        return (_included().raw_repr(), _excluded().raw_repr()) in _usual and not _function_modes() and not _profiler_on()
else:
    _usual = _in_new_thread(lambda: _included().highestPriorityTypeId())

    def unwatched():
        return (_included().highestPriorityTypeId() == _usual and not torch.is_autocast_enabled()
                and not torch.is_autocast_cpu_enabled() and not _function_modes() and not _profiler_on())


def _on_known_devices(tensors):
    return all(t is None or t.device.type in ("cpu", "cuda") for t in tensors)


def _special(tensors):
    """Is any a wrapper, or does it have the bit that says that its elements are yet to be negated?"""
    for t in tensors:
        if t is not None and (type(t) not in _PLAIN or t.is_neg()):
            return True
    return False


def _only_tensors(name, tensors):
    for t in tensors:
        if t is not None and not isinstance(t, TRACED):
            raise TypeError("%s: PyTorch tensors cannot be mixed with others in one call, and a %s is none" % (name, type(t).__name__))


def _wrapped(tensors):
    for t in tensors:
        if t is not None and type(t) not in _PLAIN:
            return True
    return False


# ---- gradients ----

def _make_function(op, call_backward):
    """The autograd.Function of an operator: apply(plan, outputs, *inputs) where outputs are what the call has given; those of
    them that have a gradient come back, with it."""
    name, count, grad_count, matches = op.name + " backward", len(op.inputs), len(op.grads), op.matches
    at_saved = tuple(op.outputs.index(n) for n in op.saved)

    def gradients(plan, wants, grads, tensors):
        """By the inputs; tensors: what was saved, the inputs first."""
        inputs, saved = tensors[:count], tensors[count:]
        if _grad_enabled() or _special(grads) or _wrapped(tensors) or not unwatched():
            return long_backward(op, call_backward, wants, grads, inputs, saved, plan.params)
        key = (name, plan, wants, *map(key_of, grads), *map(key_of, tensors))
        backward_plan = local.plans.get(key)
        if backward_plan is None or backward_plan.busy:
            mask = sum(1 << i for i, want in enumerate(wants) if want)
            if not mask or all(g is None for g in grads):
                return (None,) * count
            backward_plan = new_backward_plan(op, (grads, inputs, saved, mask, plan.params), key)
        context = context_of(backward_plan)
        wanted = new_zeros(backward_plan, context, inputs)
        run_backward(backward_plan, context, grads, tensors, wanted)
        return wanted

    def forward(ctx, plan, outputs, *inputs):
        ctx.save_for_backward(*inputs, *[outputs[i] for i in at_saved])
        ctx.plan = plan
        ctx.set_materialize_grads(False)
        if matches:  # the numbers of candidates have no gradient, and offsets none where flow (or centre) needs none
            return tuple(outputs[:2]) if ctx.needs_input_grad[4] else outputs[0]
        return tuple(outputs) if grad_count > 1 else outputs[0]

    def backward(ctx, *grads):
        grads += (None,) * (grad_count - len(grads))
        return None, None, *gradients(ctx.plan, ctx.needs_input_grad[2:], grads, ctx.saved_tensors)

    methods = dict(forward=staticmethod(forward), backward=staticmethod(backward))
    function = type("Snls_" + op.name, (torch.autograd.Function,), methods)  # grad_fn is called after the name that a class is made with
    return super(torch.autograd.Function, function).apply  # what torch.autograd.Function.apply adds to it is for transforms


# ---- calls ----

_FUNCTIONS = {name: _make_function(op, call_backward) for name, (op, _, call_backward) in REGISTERED.items()}


def _go_long_way(op, long_way, tensors, params, with_index):
    if any([type(value) not in row.types for row, value in zip(op.params, params)]):  # the dispatcher takes no other
        params = plain_params(op, params)
    found = long_way(*tensors, *params, with_index) if op.matches else long_way(*tensors, *params)
    if isinstance(found, torch.fx.Proxy) and len(op.outputs) > 1:  # which does not know how many it stands for
        return tuple([found[i] for i in range(len(op.outputs))])
    return found


def call(name, tensors, params, with_index=True):
    """One call of an operator; None of tensors only where it is optional. Without with_index a search may return an index or
    leave it out: it is made where backward will read it."""
    op, long_way, _ = REGISTERED[name]
    if _is_compiling() or _special(tensors) or not unwatched():
        _only_tensors(name, tensors)
        return _go_long_way(op, long_way, tensors, params, with_index)
    key = (name, params, *map(key_of, tensors))
    plan = local.plans.get(key)
    if plan is None or plan.busy:
        if not _on_known_devices(tensors):
            return _go_long_way(op, long_way, tensors, params, with_index)
        plan = new_plan(op, tensors, params, key)
    with_grad = needs_grad(tensors)
    outputs = run_forward(plan, tensors, with_index or with_grad)
    if with_grad:
        found = _FUNCTIONS[name](plan, outputs, *tensors)
        outputs[:len(op.grads)] = found if type(found) is tuple else (found, *outputs[1:len(op.grads)])
    return tuple(outputs) if len(outputs) > 1 else outputs[0]
