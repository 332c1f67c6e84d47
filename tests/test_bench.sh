#!/bin/bash
# The benchmark works and tells what docs/cli.md promises; how fast anything is, is no matter here.
set -u
build=$1
[ -x "$build/snls" ] || { echo "test_bench: $build/snls is not there"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "test_bench: $1"; failures=$((failures + 1)); }
python=${SNLS_PYTHON:-}
[ -n "$python" ] || python=$(command -v python3)

bench() { "$build/snls" bench --quick "$@"; }

# One thread where that is enough: on a busy machine threads wait for each other longer than they work.
bench --json >"$work/cases.json" || fail "--quick --json ends with $?"
bench --threads 1 --op search --svg "$work/cases.svg" >"$work/table" || fail "--quick --svg ends with $?"
grep -q 'search .* forward ' "$work/table" || fail "the table has no row for search"
bench --threads 1 --scaling --targets --json --svg "$work/lines.svg" >"$work/lines.json" || fail "--scaling --targets ends with $?"

bench --threads 1 --targets --runs 3 --json >"$work/turns.json" || fail "--targets --runs 3 ends with $?"

"$build/snls" bench --case 'search torch 64x64 F16 ws9 ps3 k10 l2' --size 16x16 --features 4 --runs 1 --threads 1 --json >"$work/torch.json" || fail "the case for PyTorch ends with $?"
"$build/snls" bench --op weights --size 8x8 --runs 1 --threads 65 --quick --json >"$work/many.json" || fail "65 threads end with $?"
bench --threads 1 --runs 3 --op search --svg "$work/again.svg" --scaling --json >"$work/again.json" || fail "--op with --scaling ends with $?"
for option in "--size 16x16" "--frames 6" "--features 8"; do # the sizes of --scaling and --targets are their own
    bench --scaling $option >/dev/null 2>"$work/err"
    [ $? = 2 ] && grep -q 'are for the cases' "$work/err" || fail "--scaling $option without cases: $(cat "$work/err")"
done
for size in ' 8x8' '8x8 ' ' 8 x 8' '8 x8' '8x 8' +8x8 8x+8 8x-8 8X8 8 8x 8x8x8 3x8 8x32768 4294967304x8; do
    bench --op weights --size "$size" >/dev/null 2>"$work/err"
    [ $? = 2 ] && grep -q -- '--size is .*, must be HxW' "$work/err" || fail "--size '$size': $(cat "$work/err")"
done
# --op names rows of --scaling and --targets too, and another operator than theirs has none
bench --threads 2 --runs 1 --op search --scaling --targets --json >"$work/of_search.json" || fail "--op search --scaling --targets ends with $?"
bench --threads 2 --runs 1 --op gather-add --scaling --targets --json >"$work/of_gather_add.json" || fail "--op gather-add --scaling --targets ends with $?"
for option in --scaling --targets "--cases --scaling"; do
    bench --op weights $option >/dev/null 2>"$work/err"
    [ $? = 2 ] && grep -q -- '--op is weights, --scaling and --targets are about search and gather-add' "$work/err" || fail "--op weights $option: $(cat "$work/err")"
done
# --case names goals too, and then no cases beside them
bench --threads 2 --runs 1 --case 'F32 ws9 ps1 k3 prod zero' --targets --json >"$work/of_case.json" || fail "--case --targets ends with $?"
[ "$(grep -o '"work"' "$work/of_case.json" | wc -l)" = 1 ] && grep -q '"results": \[\]' "$work/of_case.json" || fail "--case --targets: not that target alone"
bench --threads 2 --runs 1 --case 'no such goal' --targets >/dev/null 2>"$work/err"
[ $? = 2 ] && grep -q -- '--case is no such goal, no target has' "$work/err" || fail "--targets of no case: $(cat "$work/err")"
# goals are for the backend that has them
refused() # WORDS OPTIONS
{
    local words=$1
    shift
    bench --runs 1 "$@" >"$work/out" 2>"$work/err"
    [ $? = 2 ] && [ ! -s "$work/out" ] && grep -q -- "$words" "$work/err" || fail "$*: $(cat "$work/err")"
}
refused '--backend ref has promised nothing' --backend ref --targets
refused '--backend ref has promised nothing' --backend ref --targets --cases --op search
refused '--scaling is of the backends cpu and ref' --device cuda --scaling
refused '--scaling is of the backends cpu and ref' --backend cuda --scaling --cases
refused 'change the cases whose times' --device cuda --targets --size 16x16
refused 'change the cases whose times' --device cuda --targets --cases --frames 6
bench --backend ref --threads 1 --op gather-add --scaling --json >"$work/ref.json" || fail "--scaling of ref ends with $?"
bench --op nothing 2>/dev/null
[ $? = 2 ] || fail "--op nothing is not refused with 2"
bench --case 'no such case' 2>/dev/null
[ $? = 2 ] || fail "a --case that names nothing is not refused with 2"
bench --op weights --device cuda >/dev/null 2>"$work/err"
[ $? = 4 ] && grep -q -- '--op is weights' "$work/err" || fail "an operator without cases on a GPU: $(cat "$work/err")"
bench --op weights --case nothing 2>"$work/err"
[ $? = 2 ] && grep -q -- '--case is nothing, no case of --op weights' "$work/err" || fail "a --case of another operator: $(cat "$work/err")"
bench --op weights --threads 1 --svg "$work/none.svg" >/dev/full 2>/dev/null
[ $? = 7 ] && [ ! -e "$work/none.svg" ] || fail "the drawing of a run whose table cannot be written remains"
bench --op weights --svg "$work/cases.svg" >/dev/null 2>&1
[ $? = 7 ] || fail "an existing --svg is not refused with 7"

# Threads that come late take nothing off the rate, and memory that cannot be had leaves a rate unknown.
sanitized=$(grep -c -- '-fsanitize=address' "$build/CMakeCache.txt" 2>/dev/null)
if [ "${sanitized:-0}" = 0 ] && command -v cc >/dev/null; then
    cat >"$work/late.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
struct Begin { void *(*run)(void *); void *argument; };
static void *late(void *p)
{
    struct Begin b = *(struct Begin *)p;
    free(p);
    usleep(20000);
    return b.run(b.argument);
}
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    struct Begin *b = malloc(sizeof *b);
    b->run = run, b->argument = argument;
    return real(t, a, late, b);
}
END
    if cc -shared -fPIC -o "$work/late.so" "$work/late.c" -ldl 2>/dev/null; then
        LD_PRELOAD="$work/late.so" bench --op weights --threads 2 --json >"$work/late.json" || fail "threads that come late: ends with $?"
    fi
    # what could not be measured is no target that was missed
    cat >"$work/large.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
void *aligned_alloc(size_t alignment, size_t size)
{
    void *(*real)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    return size < 800000 ? real(alignment, size) : NULL;
}
END
    if cc -shared -fPIC -o "$work/large.so" "$work/large.c" -ldl 2>/dev/null; then
        LD_PRELOAD="$work/large.so" bench --targets --op search --threads 1 >"$work/large" || fail "targets without memory: ends with $?"
        awk '/^target / { rows = 1; next } rows && /^[0-9]+ of [0-9]+ met/ { said = $1 " " $3 " " $5; exit } rows { yes += / yes /; no += / no /; none += / -    / }
             END { exit !(said == yes " " yes + no " " none && none && no + yes) }' "$work/large" || fail "targets without memory: $(cat "$work/large")"
    fi
    (ulimit -v 400000; "$build/snls" bench --op weights --size 16x16 --runs 1 --threads 1 --json) >"$work/little.json" 2>/dev/null || rm -f "$work/little.json"
fi

# how much arithmetic a search is said to need, here in frames that are smaller than the window
for case in A:'A 320x320 F16' l:'cpu 160x160 F16 ws9 ps3 k3 l2' C:C; do
    "$build/snls" bench --case "search ${case#*:}" --size 6x5 --features 2 --runs 1 --threads 1 --json >"$work/flops_${case%%:*}.json" || fail "the cases ${case#*:} end with $?"
done
if [ -n "$python" ]; then
    "$python" - "$work" <<'END' || fail "flops of searches are not what counting them gives"
import json, math, struct, sys
folder = sys.argv[1]

def f32(x): return struct.unpack("f", struct.pack("f", x))[0]

def uniform(seed, count, low, high):  # bench/inputs.c
    mask, values = 2**64 - 1, []
    for _ in range(count):
        seed = (seed + 0x9e3779b97f4a7c15) & mask
        x = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9 & mask
        x = (x ^ x >> 27) * 0x94d049bb133111eb & mask
        values.append(f32(low + (high - low) * ((x ^ x >> 31) >> 11) * 2.0**-53))
    return values

def fold(x, last):  # reflected
    x = abs(x) % (2 * last)
    return x if x <= last else 2 * last - x

def taps(y, x, height, width):  # weights that are not 0, by place
    found = {}
    for i, a in ((0, 1 - y % 1), (1, y % 1)):
        for j, b in ((0, 1 - x % 1), (1, x % 1)):
            if a * b: found[fold(math.floor(y) + i, height - 1), fold(math.floor(x) + j, width - 1)] = a * b
    return found

def window(a, p, last):  # the places along an axis that lie in the frame, with their numbers
    ws, step = p["ws"], p["stride1"]
    o = (ws - 1) // 2
    if a - step * o < 0: o = math.floor(a / step)
    if a + step * (ws - 1 - o) > last: o = math.ceil((a - last) / step + ws - 1)
    return [a + step * (r - o) for r in range(ws) if 0 <= a + step * (r - o) <= last]

def count(p):
    """Multiply-adds and differences of search, forward and backward, by trying every candidate as docs/operators.md has it, and the least difference between scores kept and not."""
    frames, height, width, channels, ws, wt, ps, step0 = (p[n] for n in ("frames", "height", "width", "channels", "ws", "wt", "ps", "stride0"))
    rows, columns, slots, features = -(-height // step0), -(-width // step0), 2 * wt + 1, channels // p["heads"]
    l2, query, key = p["dist"] == "l2", *(uniform(seed, frames * height * width * channels, 0, 1) for seed in (1, 2))
    random = uniform(7, frames * 2 * wt * rows * columns * 2, -30, 30)
    reach, flops, forward, gap = [r - ps // 2 for r in range(ps)], 0, 0, math.inf
    def pixel(video, t, y, x, c): return video[((t * height + y) * width + x) * channels + c]
    def flow(t, slot, i, j):
        plane = t * 2 * wt + slot - 1
        at = 2 * ((plane * rows + i) * columns + j)
        if p["flow"] == "smooth": return f32(3 * math.sin(0.05 * j + 0.03 * i + plane)), f32(3 * math.cos(0.04 * i - 0.02 * j + plane))
        return (0, 0) if p["flow"] == "zero" else random[at:at + 2]
    def read(t, y, x, c): return sum(w * pixel(key, t, *at, c) for at, w in taps(fold(y, height - 1), fold(x, width - 1), height, width).items())
    def score(t, frame, y0, x0, y, x, own):
        total = 0
        for dy in reach:
            for dx in reach:
                for c in own:
                    q, k = pixel(query, t, fold(y0 + dy, height - 1), fold(x0 + dx, width - 1), c), cached(frame, y + dy, x + dx, c)
                    total += (q - k)**2 if l2 else -q * k
        return total
    for n in range(p["heads"] * frames * rows * columns):
        head, t, i, j = n // (frames * rows * columns), n // (rows * columns) % frames, n // columns % rows, n % columns
        shift = min(0, t - wt) + max(0, t + wt - (frames - 1))
        latest, own, found, memo = min(frames - 1, t + wt - shift), range(head * features, (head + 1) * features), [], {}
        def cached(*at):
            if at not in memo: memo[at] = read(*at)
            return memo[at]
        for slot in range(slots):
            u, v = flow(t, slot, i, j) if slot else (0, 0)
            frame = t + slot if t + slot <= latest else latest - slot
            for y in window(fold(i * step0 + v, height - 1), p, height - 1):
                for x in window(fold(j * step0 + u, width - 1), p, width - 1):
                    found.append((score(t, frame, i * step0, j * step0, y, x, own) if p["op"] == "search" else 0, slot, y, x))
        forward += len(found) * ps * ps * features * (2 + l2)
        found.sort(key=lambda one: one[0])
        kept = found[:p["k"]] if p["op"] == "search" else found
        if len(kept) < len(found): gap = min(gap, found[len(kept)][0] - kept[-1][0])
        for _, slot, y, x in kept:
            read_at, fy, fx = len(taps(y, x, height, width)), y % 1, x % 1
            slope_y, slope_x = (fx - 1, -fx, 1 - fx, fx), (fy - 1, 1 - fy, -fy, fy)
            sums = sum(1 for a, b in zip(slope_y, slope_x) if a or b) if slot else 0
            flops += ps * ps * features * ((2 * read_at if read_at > 1 else 0) + l2 + 2 + 2 * read_at + 2 * sums)
    return forward, flops, gap
named = [r for n in "AlC" for r in json.load(open("%s/flops_%s.json" % (folder, n)))["results"]]
whole = json.load(open(folder + "/cases.json"))["results"]
seen = {True: 0, False: 0}
forward = {(r["op"], r["name"]): r["flops"] for r in named + whole if r["direction"] == "forward"}
for r in [r for r in named + whole if r["direction"] == "backward" and (r in named or r["op"] == "search_all")]:
    tried, flops, gap = count(dict(r["parameters"], op=r["op"]))
    assert gap > 1e-6, (r["name"], gap)  # else rounding decides which neighbours are kept: choose another size
    assert r["flops"] == flops, (r["name"], r["flops"], flops)
    assert forward[r["op"], r["name"]] == tried, (r["name"], forward[r["op"], r["name"]], tried)  # those beyond a small frame are not there
    seen[r["op"] == "search"] += 1
assert seen == {True: 12, False: 1}, seen
for r in whole:  # places of refine are all between pixels, and all move
    p = r["parameters"]
    if r["op"] == "refine" and r["direction"] == "backward":
        assert r["flops"] == p["frames"] * p["height"] * p["width"] * p["k"] * p["channels"] * (8 + 2 + 8 + 1 + 8), r
END
fi

if [ -n "$python" ]; then
    "$python" - "$work" <<'END' || fail "the JSON or the SVG is not as promised"
import json, math, os, sys, xml.etree.ElementTree as tree
folder = sys.argv[1]

report = json.load(open(folder + "/cases.json"))
for key in ("command", "version", "backend", "threads", "machine", "ceilings", "results", "scaling", "targets"):
    assert key in report, key
for key in ("cpu", "cores", "cpu_level", "compiler", "l1_bytes", "l2_bytes", "l3_bytes", "memory_bytes"):
    assert key in report["machine"], key
assert {c["threads"] for c in report["ceilings"]} == {1, report["threads"]}
for c in report["ceilings"]:
    assert c["fma_flops_per_second"] > 0 and c["triad"][0]["name"] == "L1" and c["triad"][-1]["name"] == "memory"
    assert all(m["bytes_per_second"] > 0 for m in c["triad"])

ops = {"search", "search_all", "refine", "flow_compose", "weights", "gather", "gather_add", "scatter_add"}
assert {(r["op"], r["direction"]) for r in report["results"]} == {(o, d) for o in ops for d in ("forward", "backward")}
for r in report["results"]:
    for key in ("name", "group", "parameters", "runs", "seconds", "flops", "bytes", "limit_seconds", "of_limit", "bound",
                "best_seconds", "of_limit_best", "scratch_bytes", "output_bytes", "speedup_over_plain", "speedup_over_ref"):
        assert key in r, (r["name"], key)
    assert 0 < r["best_seconds"] <= r["seconds"] and r["flops"] > 0 and r["bytes"] > 0 and r["of_limit"] > 0, r["name"]
    assert r["speedup_over_plain"] > 0, r["name"]
    if r["direction"] == "forward" and r["op"] != "scatter_add":
        assert r["plain_difference"] is not None, r["name"]
    if r["plain_difference"] is not None:  # the plain loop computes the same, so comparing their times is fair
        assert r["plain_difference"] < 1e-3, (r["name"], r["plain_difference"])

forward, backward = json.load(open(folder + "/torch.json"))["results"]  # without gradients nobody reads the index
indexed, queries = forward["with_index"], 5 * 16 * 16
assert (forward["parameters"]["index"], backward["parameters"]["index"], "with_index" in backward) == (False, True, False)
assert forward["output_bytes"] == queries * 10 * 16 and indexed["output_bytes"] == queries * 10 * 20
assert indexed["best_seconds"] > 0 and forward["plain_difference"] < 1e-3

report = json.load(open(folder + "/lines.json"))
assert {s["axis"] for s in report["scaling"]} >= {"pixels", "frames", "ws", "ps", "F"}
assert all(len(s["points"]) > 2 and s["slope"] is not None for s in report["scaling"])
assert len(report["targets"]) > 20 and all(t["measured"] is not None for t in report["targets"])
timed = [t for t in report["targets"] if "estimator" in t]
assert len(timed) > 20 and all(t["estimator"] == "best" and t["runs"] == 1 for t in timed)
assert all(t["measured_median"] == t["measured"] for t in timed)  # of one run they are the same

for t in json.load(open(folder + "/turns.json"))["targets"]:  # of three they are not, and the least is on the better side
    if t["unit"].startswith("%"):
        assert t["runs"] == 3 and t["measured"] >= t["measured_median"] > 0, t["work"]

whole = {s["axis"] for s in report["scaling"]}, len(report["targets"])  # on one thread, the others on two
of = {op: json.load(open("%s/of_%s.json" % (folder, op))) for op in ("search", "gather_add")}
for op, part in of.items():
    assert part["results"] == [] and part["scaling"] and part["targets"], op
    assert all(s["name"].split()[0] == op for s in part["scaling"]), [s["name"] for s in part["scaling"]]
    assert all(t["work"].split()[0] == op for t in part["targets"]), [t["work"] for t in part["targets"]]
assert {s["axis"] for part in of.values() for s in part["scaling"]} == whole[0] | {"threads"}
assert sum(len(part["targets"]) for part in of.values()) == whole[1] + 5  # of two threads against one
assert {s["name"] for s in json.load(open(folder + "/ref.json"))["scaling"]} == {"gather_add forward"}

report = json.load(open(folder + "/many.json"))
assert [c["threads"] for c in report["ceilings"]] == [1, 65] and report["results"][0]["threads"] == 65

if os.path.exists(folder + "/late.json"):  # a thousand times less, where the wait for a thread counts as work
    report = json.load(open(folder + "/late.json"))
    one, two = (c["fma_flops_per_second"] for c in report["ceilings"])
    assert two > one / 50, (one, two)
    assert all(r["fma_flops_per_second_beside"] > one / 50 for r in report["results"]), one

if os.path.exists(folder + "/little.json"):  # a rate is a number above 0, or not known
    for c in json.load(open(folder + "/little.json"))["ceilings"]:
        assert all(m["bytes_per_second"] is None or m["bytes_per_second"] > 0 for m in c["triad"]), c

picture = tree.parse(folder + "/again.svg").getroot()  # lines go through the times that their slopes are of
lines = [[float(p.split(",")[1]) for p in e.get("points").split()] for e in picture.iter() if e.tag.endswith("polyline")]
series = json.load(open(folder + "/again.json"))["scaling"]
assert len(lines) == len(series)
for axis in {s["axis"] for s in series}:  # of one panel, whose height is a logarithm
    at = sorted((math.log(p["best_seconds"]), y) for s, line in zip(series, lines) if s["axis"] == axis for p, y in zip(s["points"], line))
    scale = (at[-1][1] - at[0][1]) / (at[-1][0] - at[0][0])
    assert all(abs(y - at[0][1] - scale * (x - at[0][0])) < 0.2 for x, y in at), (axis, at)

for name in ("cases", "lines"):
    root = tree.parse("%s/%s.svg" % (folder, name)).getroot()
    assert root.tag.endswith("}svg") and "".join(root.itertext()).count("snls") >= 1
END
elif command -v xmllint >/dev/null; then
    xmllint --noout "$work/cases.svg" "$work/lines.svg" || fail "the SVG is not well-formed"
else
    echo "test_bench: no Python and no xmllint, JSON and SVG were not parsed"
fi

[ $failures = 0 ] || exit 1
echo "test_bench: ok"
