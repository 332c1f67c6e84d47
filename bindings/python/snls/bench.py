"""bench.py: what a call costs beside the work itself: python -m snls.bench [--json] [--calls N]

Calls on inputs so small that there is next to nothing to compute, one after the other; the best of many short rounds, in
microseconds. On a GPU a call returns before the work is done; the time is that until the next call can be made, the queue
being emptied after each round. "gradient" is a call that records its backward pass, "backward" that pass; "no work" is the
same with an operator in Python that does nothing, the time that PyTorch itself takes.
"""
import argparse
import json
import platform
import sys
import time

import numpy as np

import snls

SHAPE = (1, 1, 4, 4, 4)  # (B,T,H,W,C)


def best(function, calls, rounds, wait=lambda: None):
    """Microseconds of one call, of the fastest round."""
    times = []
    for _ in range(rounds + 1):  # the first round warms up
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        wait()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return min(times[1:])


def cases(video):
    """The operators of a small attention, on arrays of video's kind."""
    dist, offset = snls.search(video, video, ws=3, k=2)
    weight = snls.weights(dist)
    return {"search": lambda: snls.search(video, video, ws=3, k=2), "weights": lambda: snls.weights(dist),
            "gather_add": lambda: snls.gather_add(video, weight, offset), "refine": lambda: snls.refine(video, video, offset)}


def numpy_rows(measure):
    video = np.random.default_rng(0).random(SHAPE).astype("float32")
    return [("numpy", name, measure(f)) for name, f in cases(video).items()]


def idle_function(torch):
    """An autograd.Function of three inputs that does nothing: what PyTorch itself takes of the time of any other."""
    class Idle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, output, grad, query, key, flow):
            ctx.save_for_backward(query, key, flow)
            ctx.grad = grad
            return output.view_as(output)

        @staticmethod
        def backward(ctx, *grads):
            return None, None, ctx.grad, ctx.grad, None
    return Idle.apply


def gradient_rows(torch, device, measure):
    video = torch.rand(SHAPE).to(device).requires_grad_(True)
    idle = idle_function(torch)
    search = lambda: snls.search(video, video, ws=3, k=2)[0]
    nothing = lambda: idle(ones, zeros, video, video, None)
    ones, zeros = torch.ones_like(search()), torch.zeros_like(video)
    rows = []
    for name, forward in (("search", search), ("no work", nothing)):
        dist = forward()
        rows += [("torch " + device, name + ", gradient", measure(forward)),
                 ("torch " + device, name + ", backward",
                  measure(lambda: torch.autograd.grad(dist, video, ones, retain_graph=True)))]
    return rows


def compiled_rows(torch, device, measure):
    """Calls inside torch.compile: what remains is the dispatcher, and what compiled code does around it."""
    video = torch.rand(SHAPE).to(device).requires_grad_(True)
    search = torch.compile(lambda v: snls.search(v, v, ws=3, k=2)[0], fullgraph=True)
    dist = search(video)
    ones = torch.ones_like(dist)
    again = lambda: torch.autograd.grad(dist, video, ones, retain_graph=True)
    rows = [("torch " + device, "search compiled, gradient", measure(lambda: search(video))),
            ("torch " + device, "search compiled, backward", measure(again))]
    with torch.no_grad():
        search(video)
        return [("torch " + device, "search compiled", measure(lambda: search(video)))] + rows


def torch_rows(torch, device, measure, compiled):
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    timed = lambda f: measure(f, wait)
    with torch.no_grad():
        video = torch.rand(SHAPE).to(device)
        rows = [("torch " + device, name, timed(f)) for name, f in cases(video).items()]
        add = timed(lambda: video + video)
    rows += gradient_rows(torch, device, timed)
    if compiled:
        rows += compiled_rows(torch, device, timed)
    return rows + [("torch " + device, "video + video, to compare", add)]


def measure_all(calls, rounds, compiled):
    measure = lambda f, wait=lambda: None: best(f, calls, rounds, wait)
    rows = numpy_rows(measure)
    torch = sys.modules.get("torch")
    if torch is not None:
        rows += torch_rows(torch, "cpu", measure, compiled)
        if torch.cuda.is_available() and snls.has_cuda():
            rows += torch_rows(torch, "cuda", measure, compiled)
    return rows


def machine():
    from snls import _context, _lib
    torch = sys.modules.get("torch")
    context = _context.get("cpu")
    found = {"snls": snls.__version__, "python": platform.python_version(), "numpy": np.__version__,
             "torch": torch.__version__ if torch else None,
             "cpu": _lib.level_name(_lib.context_level(context.handle)).decode(), "threads": _lib.context_threads(context.handle)}
    if snls.has_cuda():
        found["gpu"] = _lib.device_name(_context.get("cuda").handle).decode()
    return found


def main():
    parser = argparse.ArgumentParser(prog="python -m snls.bench", description="What a call costs beside the work itself.")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--calls", type=int, default=50, help="calls of a round (50)")
    parser.add_argument("--rounds", type=int, default=400, help="rounds, of which the best counts (400)")
    parser.add_argument("--compile", action="store_true", help="also calls inside torch.compile, which takes a while and a compiler")
    args = parser.parse_args()
    rows, about = measure_all(args.calls, args.rounds, args.compile), machine()
    if args.json:
        print(json.dumps({"machine": about, "microseconds": [dict(zip(("arrays", "call", "us"), r)) for r in rows]}, indent=1))
        return
    print(", ".join("%s %s" % item for item in about.items() if item[1] is not None))
    for where, name, us in rows:
        print("%-12s %-28s %8.1f us" % (where, name, us))


if __name__ == "__main__":
    main()
