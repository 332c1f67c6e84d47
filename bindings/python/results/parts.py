#!/usr/bin/env python3
"""parts.py: what the parts of a small backward call cost, in microseconds: python3 parts.py [cpu|cuda]; h200-parts.log is what its first form printed on one.

"host" is the time until the next call can be made, "with wait" that of a round of 50 with the GPU's work at its end. Reaches into the package."""
import sys
import time

import torch

import snls
from snls import _short, _torch, bench

device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
wait = torch.cuda.synchronize if device == "cuda" else lambda: None


def host(function, calls=20, rounds=150):
    times = []
    for _ in range(rounds):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return min(times)


def show(name, function):
    print("%-34s host %6.1f   with wait %6.1f" % (name, host(function), bench.best(function, 50, 60, wait)), flush=True)


def identity():
    class Identity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return grad
    return Identity.apply


video = torch.rand(bench.SHAPE).to(device).requires_grad_(True)
plain = video.detach()
dist = snls.search(video, video, ws=3, k=2)[0]
ones, zeros = torch.ones_like(dist), torch.zeros_like(video)
idle, twice = bench.idle_function(torch)(ones, zeros, video, video, None), video * 2
same, like = identity()(video), torch.ones_like(video)
gradient = lambda result, grad: lambda: torch.autograd.grad(result, video, grad, retain_graph=True)

op, saved, plan, wants, grads = _short.REGISTERED["search"][0], dist.grad_fn.saved_tensors, dist.grad_fn.plan, (True, True, False), (ones, None)
back = _torch.new_backward_plan(op, (grads, saved[:3], saved[3:], 3, plan.params), ("parts",))
context = _torch.context_of(back)
wanted = _torch.new_zeros(back, context, saved)

with torch.no_grad():
    show("search, no grad", lambda: snls.search(plain, plain, ws=3, k=2))
show("grad ours", gradient(dist, ones))
show("grad idle", gradient(idle, ones))
show("grad v*2", gradient(twice, like))
show("grad of identity in Python", gradient(same, like))
show("new_zeros", lambda: _torch.new_zeros(back, context, saved))
show("zeros_like x2", lambda: (torch.zeros_like(plain), torch.zeros_like(plain)))
show("run_backward", lambda: _torch.run_backward(back, context, grads, saved, wanted))
show("C backward", lambda: op.backward(context.handle, back.address, back.grad_block.address))
show("context_of", lambda: _torch.context_of(back))
show("keys", lambda: ("backward", plan, wants, *map(_torch.key_of, grads), *map(_torch.key_of, saved)))
show("unwatched", _short.unwatched)
show("special, wrapped", lambda: (_short._special(grads), _short._wrapped(saved)))
show("saved_tensors", lambda: dist.grad_fn.saved_tensors)
