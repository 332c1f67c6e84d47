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
    (ulimit -v 400000; "$build/snls" bench --op weights --size 16x16 --runs 1 --threads 1 --json) >"$work/little.json" 2>/dev/null || rm -f "$work/little.json"
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
