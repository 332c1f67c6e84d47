#!/usr/bin/env bash
# test_flow_cli.sh BUILD SOURCE: snls flow from outside: formats, truth, errors; and, where ../shared/data has it, the
# end-point errors on a real pair.
. "$2/tests/cli.sh"
source=$2
number() { sed -nE "s/.*\"$1\": ([-0-9.e+]+).*/\\1/p"; } # of a JSON line
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a + 0 <= b + 0) }'; }

"$snls" synth clip.npy --frames 3 --height 96 --width 128 --object-size 0 --camera-x 2.5 --camera-y=-1.25 --out-fflow true.npy || bad "synth"

# every method finds a known motion
for method in farneback tvl1 dis; do
    epe=$("$snls" flow clip.npy $method.npy --method $method --truth true.npy --json | number epe)
    below "$epe" 0.35 || bad "$method: end-point error '$epe' on a moving camera"
done

# formats: what .flo and KITTI's PNG hold comes back as truth; KITTI rounds to 1/64
"$snls" flow clip.npy f%d.flo --method dis > log || bad "pattern of .flo: $(cat log)"
[ -f f0.flo ] && [ -f f1.flo ] && [ ! -f f2.flo ] || bad "a clip of three frames has two flows, there are: $(ls ./*.flo)"
if has png; then
    "$snls" flow clip.npy k%d.png --method dis --kitti > log || bad "kitti: $(cat log)"
    "$snls" flow clip.npy c%d.png --method dis > log || bad "colours: $(cat log)"
    epe=$("$snls" flow clip.npy again.npy --method dis --truth k0.png --json | number epe)
    below "$epe" 0.0111 || bad "KITTI's file as truth: '$epe'"
fi
"$snls" flow clip.npy n.npy --method dis --truth f0.flo --json > log
epe=$(number epe < log)
below "$epe" 0 || bad ".flo as truth: '$epe'"
"$snls" flow clip.npy d.npy --method dis --out-backward b.npy --out-error e.npy --json > log || bad "backward: $(cat log)"
below 0.8 "$(number consistent < log)" || bad "forward and backward agree on $(number consistent < log)"

# the error is the mean over all pixels that are known, however they lie in the pairs
"$snls" flow --help | tr -s '\n ' ' ' | grep -q 'where it is known (below 1e9, not NaN)' || bad "--help does not tell which pixels have a true flow"
if [ -n "${SNLS_PYTHON:-}" ]; then
    "$SNLS_PYTHON" - <<'P' > want || bad "no truth with unknown pixels was made"
import numpy as np
flow, rng = np.load("farneback.npy"), np.random.default_rng(1)
truth = flow[:2] + rng.normal(0, 1, flow[:2].shape).astype("f4") * np.array([1, 5], "f4")[:, None, None, None]
truth[1, 7:] = 2e9
known = np.concatenate([np.hypot(*(flow[0] - truth[0]).reshape(-1, 2).T), np.hypot(*(flow[1] - truth[1])[:7].reshape(-1, 2).T)])
np.save("some.npy", truth)
truth[0] = np.nan
np.save("second.npy", truth)
print(known.mean(), np.hypot(*(flow[1] - truth[1])[:7].reshape(-1, 2).T).mean())
P
    for truth in some.npy second.npy; do "$snls" flow clip.npy again.npy -y --truth $truth --json | number epe; done > got
    paste -sd' ' got | paste - want | awk '{ exit !(NF == 4 && ($1 - $3) ^ 2 < 1e-10 && ($2 - $4) ^ 2 < 1e-10) }' || bad "unknown pixels: $(cat got), expected $(cat want)"
fi

# a pipe or a device whose name says nothing takes the array; beside one on standard output the summary goes to stderr
"$snls" flow clip.npy again.npy -y --method dis > log || bad "again: $(cat log)"
"$snls" flow clip.npy /dev/null --method dis > log 2>&1 || bad "into /dev/null: $(cat log)"
"$snls" flow clip.npy /dev/stdout --method dis 2> log | cat > piped.npy
cmp -s piped.npy again.npy && grep -q 'mean motion' log || bad "into a pipe: $(wc -c < piped.npy) bytes, and $(cat log)"

# the parameters of a method belong to it
expect() # CODE WHAT COMMAND...
{
    local want=$1 what=$2
    shift 2
    "$@" > out.log 2> err.log
    local code=$?
    [ $code = "$want" ] || bad "$what: exit $code, expected $want: $(cat err.log)"
    [ "$want" = 0 ] || [ "$(wc -l < err.log)" = 1 ] || bad "$what: stderr is not one line: $(cat err.log)"
}
expect 0 "winsize of farneback" "$snls" flow clip.npy x1.npy --winsize 9
expect 2 "winsize of tvl1" "$snls" flow clip.npy x2.npy --method tvl1 --winsize 9
expect 2 "no such method" "$snls" flow clip.npy x2.npy --method lucas
expect 2 "out of range" "$snls" flow clip.npy x2.npy --levels -1
expect 2 "two pairs, one .flo" "$snls" flow clip.npy x.flo
expect 2 "no known suffix" "$snls" flow clip.npy x.txt
expect 2 "kitti as .npy" "$snls" flow clip.npy x2.npy --kitti
expect 2 "kitti as .flo" "$snls" flow clip.npy x%d.flo --kitti
expect 2 "levels twice" "$snls" flow clip.npy x2.npy --levels 2 --levels 3
expect 2 "a pattern of two numbers" "$snls" flow clip.npy x%d%d.flo
expect 3 "nothing there" "$snls" flow nothing.png x.npy
expect 3 "one frame" "$snls" flow true.npy x.npy --truth nothing.flo
mkdir empty && expect 3 "an empty folder" "$snls" flow empty x.npy
head -c 40 f0.flo > cut.flo && expect 3 "a truth cut short" "$snls" flow clip.npy x3.npy --truth cut.flo
touch film.mkv && expect 3 "an empty video" "$snls" flow film.mkv x.npy
expect 7 "exists" "$snls" flow clip.npy x1.npy
ls ./*.part 2>/dev/null && bad "parts are left"

# a real pair
data=$source/../shared/data/flow
if [ -d "$data" ] && has png; then
    mkdir pair && cp "$data"/rubberwhale_0.png "$data"/rubberwhale_1.png pair/
    for limit in farneback:0.340 tvl1:0.214 dis:0.284; do
        method=${limit%:*}
        epe=$("$snls" flow pair $method.flo --method $method --truth "$data/rubberwhale.flo" --json | number epe)
        below "$epe" "${limit#*:}" || bad "$method on RubberWhale: end-point error '$epe', ${limit#*:} is allowed"
        echo "RubberWhale, $method: $epe"
    done
else
    echo "no ../shared/data/flow or no PNG: the real pair was left out"
fi
[ $failed = 0 ] && echo "test_flow_cli: ok"
exit $((failed > 0))
