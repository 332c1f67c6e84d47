#!/usr/bin/python3
"""bench_torch.py: the shifted search as a PyTorch user would write it on the CPU, beside snls, in one run.

    tools/bench_torch.py [--snls build/snls] [--ps 1|3] [--features F] [--side N] [--runs 3] [--threads N] [--dist l2|prod] [--json]

Two ways to write it, T 5, ws 9, wt 1, k 10, bilinear, smooth flow; first ps 1, F 32 at 96x96, then ps 3, F 16 at 64x64 (with
a backward pass PyTorch holds 7 GB there), or what --ps, --features and --side say:
  grid_sample   the key frame is sampled at every candidate's place, scores are stacked, then topk. Patches move with their
                centre's flow: their pixels are laid side by side as channels first, so a candidate is one call (sampling
                pixel after pixel of the patch takes longer and holds more)
  warp_unfold   the key frame is warped by the flow once and unfolded; the candidates lie on the grid of the warped frame,
                so it is another operator, and the flow gets its gradient through the warp only. Patches: scores are summed
                over them, so each of their pixels moves with its own flow
Neither moves windows inside the frame at its border, as snls does; the work is the same. Time is the least of the runs on
either side, which are taken in turn: disturbance only ever adds to it, to a long run more likely than to a short one. The
medians are in the JSON. Memory is the most that the process held above what it held with its inputs loaded; of snls, its
scratch and outputs. Without gradients snls returns distances and offsets, as its Python functions do; forward and backward
is with the index, the candidates' numbers, that backward reads. What the index alone adds is told too.
Exit status 77: PyTorch cannot be imported (Debian: apt-get install python3-torch).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

FRAMES, WS, WT, K = 5, 9, 1, 10
CASES = {1: (32, 96), 3: (16, 64)}  # channels and side by ps, as snls bench has them
TARGETS = {("grid_sample", "forward"): 300, ("grid_sample", "forward+backward"): 200, ("grid_sample", "memory"): 20,
           ("grid_sample", "memory with backward"): 20}


# ---- memory of this process (Linux) ----

def status_bytes(name):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name + ":"):
                return 1024 * int(line.split()[1])
    return 0


def reset_peak():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


# ---- the search ----

def slot_frame(t, slot, frames):
    """Frame of a slot: t, t+1 .. last, then t-1 down to the first; the window slides at the ends of the clip."""
    first = min(max(t - WT, 0), frames - 1 - 2 * WT)
    last = first + 2 * WT
    return t + slot if t + slot <= last else last - slot


def key_frames(key, slot):
    frames = key.shape[0]
    return key[[slot_frame(t, slot, frames) for t in range(frames)]]


def places(torch, height, width):
    """(1,H,W,2) of x, y."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack((x, y), -1)[None].float()


def sample(torch, video, at):
    """Bilinear read of (T,C,H,W) at (T,H,W,2) pixels."""
    height, width = video.shape[2:]
    scale = torch.tensor([2 / (width - 1), 2 / (height - 1)])
    return torch.nn.functional.grid_sample(video, at * scale - 1, mode="bilinear", padding_mode="reflection",
                                           align_corners=True)


def score(query, key, dist):
    return ((query - key) ** 2).sum(1) if dist == "l2" else (query * key).sum(1)


def best(torch, scores, dist):
    return torch.topk(scores, K, dim=1, largest=dist == "prod")


def with_patches(torch, video, ps):
    """(T,C*ps*ps,H,W): at each pixel the patch around it, mirrored at the border of the frame."""
    if ps == 1:
        return video
    wide = torch.nn.functional.pad(video, (ps // 2,) * 4, mode="reflect")
    return torch.nn.functional.unfold(wide, ps).view(video.shape[0], -1, *video.shape[2:])


def grid_sample(torch, query, key, flow, dist, ps):
    """query, key (T,C,H,W); flow (T,2*WT,H,W,2). Returns the K best scores, (T,K,H,W), and which they are."""
    here, scores = places(torch, *query.shape[2:]), []
    query, key = with_patches(torch, query, ps), with_patches(torch, key, ps)
    for slot in range(2 * WT + 1):
        frames = key_frames(key, slot)
        centre = here + flow[:, slot - 1] if slot else here.expand(query.shape[0], -1, -1, -1)
        for row in range(WS):
            for column in range(WS):
                step = torch.tensor([float(column - WS // 2), float(row - WS // 2)])
                scores.append(score(query, sample(torch, frames, centre + step), dist))
    return best(torch, torch.stack(scores, 1), dist)


def warp_unfold(torch, query, key, flow, dist, ps):
    frames, channels, height, width = query.shape
    here, scores = places(torch, height, width), []
    for slot in range(2 * WT + 1):
        warped = key_frames(key, slot)
        if slot:
            warped = sample(torch, warped, here + flow[:, slot - 1])
        windows = torch.nn.functional.unfold(warped, WS, padding=WS // 2)
        windows = windows.view(frames, channels, WS * WS, height, width)
        found = score(query[:, :, None], windows, dist)
        scores.append(torch.nn.functional.avg_pool2d(found, ps, 1, ps // 2, divisor_override=1) if ps > 1 else found)
    return best(torch, torch.cat(scores, 1), dist)


VARIANTS = {"grid_sample": grid_sample, "warp_unfold": warp_unfold}


def make_inputs(torch, side, features):
    generator = torch.Generator().manual_seed(1)
    query = torch.rand(FRAMES, features, side, side, generator=generator)
    key = torch.rand(FRAMES, features, side, side, generator=generator)
    place = places(torch, side, side)[0]
    x, y = place[..., 0], place[..., 1]
    planes = torch.arange(FRAMES * 2 * WT).float().view(FRAMES, 2 * WT, 1, 1)
    flow = torch.stack((3 * torch.sin(0.05 * x + 0.03 * y + planes), 3 * torch.cos(0.04 * y - 0.02 * x + planes)), -1)
    return query, key, flow


# ---- one variant, in a process of its own so that its memory is its own ----

def run_once(torch, variant, inputs, dist, ps, backward):
    """Seconds forward, seconds backward (0 without)."""
    start = time.perf_counter()
    with torch.set_grad_enabled(backward):
        values, _ = VARIANTS[variant](torch, *inputs, dist, ps)
    middle = time.perf_counter()
    if backward:
        values.backward(torch.ones_like(values))
    return middle - start, time.perf_counter() - middle if backward else 0.0


def child(arguments):
    import torch
    torch.set_num_threads(arguments.threads)
    inputs = make_inputs(torch, arguments.side, arguments.features)
    if arguments.backward:
        for tensor in inputs:
            tensor.requires_grad_(True)
    reset_peak()
    before, times, processor = status_bytes("VmRSS"), [], []
    for _ in range(arguments.runs):
        for tensor in inputs:
            tensor.grad = None
        start = time.process_time()
        times.append(run_once(torch, arguments.child, inputs, arguments.dist, arguments.ps, arguments.backward))
        processor.append(time.process_time() - start)
    print(json.dumps({"forward": [t[0] for t in times], "backward": [t[1] for t in times],
                      "both": [t[0] + t[1] for t in times], "processor": processor, "peak_bytes": status_bytes("VmHWM") - before}))


def measure_torch(arguments, variant, backward):
    command = [sys.executable, os.path.abspath(__file__), "--child", variant, "--dist", arguments.dist]
    for name in ("ps", "features", "side", "runs", "threads"):
        command += ["--" + name, str(getattr(arguments, name))]
    result = subprocess.run(command + (["--backward"] if backward else []), stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


# ---- snls ----

def measure_snls(arguments):
    features, side = CASES[arguments.ps]
    case = "search torch %dx%d F%d ws%d ps%d k%d %s" % (side, side, features, WS, arguments.ps, K, arguments.dist)
    command = [arguments.snls, "bench", "--case", case, "--json", "--threads", str(arguments.threads),
               "--size", "%dx%d" % (arguments.side, arguments.side), "--features", str(arguments.features)]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    found = {r["direction"]: r for r in report["results"]}
    return {"machine": report["machine"], "forward": found["forward"], "backward": found["backward"]}


def in_turn(arguments):
    """PyTorch's runs by variant (plain, with a graph), and those of snls before, between and after them."""
    snls, results = [measure_snls(arguments)], {}
    for variant in VARIANTS:
        results[variant] = []
        for backward in (False, True):
            results[variant].append(measure_torch(arguments, variant, backward))
            snls.append(measure_snls(arguments))
    return results, snls


def check(arguments):
    """Largest difference between grid_sample and snls, of scores far from the border: do both compute the same?"""
    import numpy
    import torch
    side, margin = 32, 9 + arguments.ps // 2
    query, key, flow = make_inputs(torch, side, arguments.features)
    with torch.no_grad():
        ours = grid_sample(torch, query, key, flow, arguments.dist, arguments.ps)[0].permute(0, 2, 3, 1).numpy()
    with tempfile.TemporaryDirectory() as folder:
        names = {name: os.path.join(folder, name + ".npy") for name in ("q", "k", "f", "d")}
        for name, video in (("q", query), ("k", key)):
            numpy.save(names[name], numpy.ascontiguousarray(video.permute(0, 2, 3, 1).numpy()[None]))
        numpy.save(names["f"], flow.numpy()[None])
        subprocess.run([arguments.snls, "search", names["q"], names["k"], "--flow", names["f"], "--ws", str(WS), "--wt",
                        str(WT), "--ps", str(arguments.ps), "--k", str(K), "--dist", arguments.dist, "--out-dist", names["d"]], check=True)
        theirs = numpy.load(names["d"])[0, 0]
    inside = (slice(None), slice(margin, -margin), slice(margin, -margin))
    return float(numpy.abs(ours - theirs)[inside].max())


def rows_of(results, snls):
    """variant, what, then (least, median) of PyTorch and of snls; memory twice."""
    forward, backward = [r["forward"] for r in snls], [r["backward"] for r in snls]
    indexed = [r["with_index"] for r in forward]
    bare, full, back = of_runs(forward), of_runs(indexed), of_runs(backward)
    held = lambda r: (r["scratch_bytes"] + r["output_bytes"],) * 2
    scratch = max(indexed[0]["scratch_bytes"], backward[0]["scratch_bytes"])
    for variant, (plain, graph) in results.items():
        yield variant, "forward", two(plain["forward"]), bare
        yield variant, "forward, with index", two(plain["forward"]), full
        yield variant, "forward+backward", two(graph["both"]), (full[0] + back[0], full[1] + back[1])
        yield variant, "memory", (plain["peak_bytes"],) * 2, held(forward[0])
        yield variant, "memory, with index", (plain["peak_bytes"],) * 2, held(indexed[0])
        yield variant, "memory with backward", (graph["peak_bytes"],) * 2, (scratch + backward[0]["output_bytes"],) * 2


def of_runs(runs):
    """(least, median) of the times of several runs of snls bench."""
    return min(r["best_seconds"] for r in runs), statistics.median(r["seconds"] for r in runs)


def two(times):
    return min(times), statistics.median(times)


def print_table(arguments, rows, snls, difference):
    print("%s, %d threads; T %d, %dx%d, F %d, ws %d, wt %d, ps %d, k %d, %s, smooth flow" %
          (snls["machine"]["cpu"], arguments.threads, FRAMES, arguments.side, arguments.side, arguments.features, WS, WT,
           arguments.ps, K, arguments.dist))
    print("grid_sample and snls agree away from the border: largest difference %.2g\n" % difference)
    print("%-12s %-22s %14s %14s %9s %9s %s" % ("", "", "PyTorch", "snls", "ratio", "target", "met"))
    for row in rows:
        memory = row["what"].startswith("memory")
        unit, scale = ("MiB", 2.0 ** -20) if memory else ("ms", 1e3)
        print("%-12s %-22s %10.2f %-3s %10.2f %-3s %8.1fx %9s %s" %
              (row["variant"], row["what"], row["torch"] * scale, unit, row["snls"] * scale, unit, row["ratio"],
               ">= %d" % row["target"] if row["target"] else "-",
               "-" if row["target"] is None else "yes" if row["met"] else "no"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--snls", default=os.path.join(root, "build", "snls"), help="the command line to compare with")
    parser.add_argument("--ps", type=int, choices=sorted(CASES), help="patch side (1, then 3)")
    parser.add_argument("--features", type=int, help="channels (ps 1: 32, ps 3: 16)")
    parser.add_argument("--side", type=int, help="rows and columns (ps 1: 96, ps 3: 64)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the least is told (3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both (all)")
    parser.add_argument("--dist", choices=("l2", "prod"), default="l2")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of the table")
    parser.add_argument("--child", choices=sorted(VARIANTS), help=argparse.SUPPRESS)
    parser.add_argument("--backward", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen(arguments):
    """The arguments of each comparison: both patch sides, unless something is said of what to compare."""
    said = arguments.ps or arguments.features or arguments.side
    for ps in [arguments.ps or 1] if said else CASES:
        features, side = CASES[ps]
        yield argparse.Namespace(**{**vars(arguments), "ps": ps, "features": arguments.features or features,
                                    "side": arguments.side or side})


def compare(arguments):
    """One comparison; prints its table or returns what goes into the JSON."""
    difference = check(arguments)
    results, runs = in_turn(arguments)
    snls = runs[0]
    rows = [{"variant": variant, "what": what, "torch": theirs[0], "snls": ours[0], "ratio": theirs[0] / ours[0],
             "torch_median": theirs[1], "snls_median": ours[1], "target": TARGETS.get((variant, what))}
            for variant, what, theirs, ours in rows_of(results, runs)]
    for row in rows:
        row["met"] = row["target"] and row["ratio"] >= row["target"]
    if not arguments.json:
        print_table(arguments, rows, snls, difference)
    return {"machine": snls["machine"], "ps": arguments.ps, "features": arguments.features, "side": arguments.side,
            "difference": difference, "rows": rows}


def main():
    arguments = parse()
    try:
        import torch
    except ImportError as error:
        print("bench_torch: skipped, %s cannot import torch: %s (Debian: apt-get install python3-torch, then "
              "/usr/bin/python3 %s)" % (sys.executable, error, sys.argv[0]), file=sys.stderr)
        return 77
    if arguments.child:
        child(arguments)
        return 0
    if not os.access(arguments.snls, os.X_OK):
        print("bench_torch: %s is not there; build it first, or name it with --snls" % arguments.snls, file=sys.stderr)
        return 1
    reports = [compare(case) for case in chosen(arguments)]
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "machine": reports[0].pop("machine"), "threads": arguments.threads,
                          "dist": arguments.dist, "cases": reports}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
