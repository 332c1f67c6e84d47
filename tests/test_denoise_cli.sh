#!/usr/bin/env bash
# test_denoise_cli.sh BUILD SOURCE: snls noise and snls eval: what they print and write, and that eval's noise is noise's; with the data of
# ../shared, --blind finds sigma within 10 % on real clips.
# ctest: timeout=300
set -u
snls=$1/snls
[ -x "$snls" ] || { echo "skipped: the command line is missing"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
check() { if ! "${@:2}"; then echo "FAIL: $1"; failed=1; fi; }
code() { local want=$1; shift; "$@" >"$work/out" 2>"$work/err"; local got=$?; [ $got = "$want" ] || { echo "exit $got: $*"; return 1; }; }
lines() { [ "$(wc -l <"$work/err")" = "$1" ]; }
number() { tr -d '\n ' <"$work/out" | grep -oE "\"$1\":-?[0-9.e+-]+" | cut -d: -f2 | sed -n "${2:-1}p"; }
between() { awk "BEGIN { exit !($1 >= $2 && $1 <= $3) }"; }

mkdir "$work/clips"
"$snls" synth "$work/clips/a.npy" --frames 4 --height 32 --width 40 || exit 1
"$snls" synth "$work/clips/b.npy" --frames 3 --height 33 --width 32 --seed 4 || exit 1

# noise
check "noise" code 0 "$snls" noise "$work/clips/a.npy" "$work/n1.npy" --sigma 20 --threads 1
check "noise on three threads" code 0 "$snls" noise "$work/clips/a.npy" "$work/n3.npy" --sigma 20 --threads 3
check "noise does not depend on threads" cmp "$work/n1.npy" "$work/n3.npy"
check "another seed" code 0 "$snls" noise "$work/clips/a.npy" "$work/n4.npy" --sigma 20 --seed 1
check "another seed is other noise" eval '! cmp -s "$work/n1.npy" "$work/n4.npy"'
check "the largest seed is told as it was given" eval '"$snls" noise "$work/clips/a.npy" "$work/n7.npy" --sigma 20 --seed 9223372036854775807 --json | grep -q "\"seed\": 9223372036854775807"'
check "a larger one is refused" code 2 "$snls" noise "$work/clips/a.npy" "$work/n6.npy" --sigma 20 --seed 9223372036854775808
check "three sigmas" code 0 "$snls" noise "$work/clips/a.npy" "$work/n5.npy" --sigma 20,20,0
cp "$work/clips/a.npy" "$work/hole.npy"; printf '\000\000\300\177' | dd of="$work/hole.npy" bs=1 seek=128 conv=notrunc 2>/dev/null # NaN in frame 0
check "NaN" code 3 "$snls" denoise "$work/hole.npy" "$work/part.npy" --sigma 0
check "NaN in a frame that is skipped" code 0 "$snls" denoise "$work/hole.npy" "$work/part.npy" --sigma 0 --first 1
check "part of an array" code 0 "$snls" denoise "$work/clips/a.npy" "$work/want.npy" --sigma 0 --first 1
check "the same part" cmp "$work/part.npy" "$work/want.npy"
check "frames behind the last" code 2 "$snls" denoise "$work/clips/a.npy" "$work/part.npy" -y --sigma 0 --first 4
if "$snls" --version | grep -q 'png yes'; then
    check "pictures" code 0 "$snls" noise "$work/clips/a.npy" "$work/pictures/" --sigma 5
    check "as many pictures as frames" [ "$(ls "$work/pictures" | wc -l)" = 4 ]
fi
check "no sigma" code 2 "$snls" noise "$work/clips/a.npy" "$work/n6.npy"
check "one line" lines 1
check "sigma auto is none" code 2 "$snls" noise "$work/clips/a.npy" "$work/n6.npy" --sigma auto
check "two sigmas" code 2 "$snls" noise "$work/clips/a.npy" "$work/n6.npy" --sigma 1,2
check "an output that is there" code 7 "$snls" noise "$work/clips/a.npy" "$work/n1.npy" --sigma 20
check "no clip" code 3 "$snls" noise "$work/none.npy" "$work/n6.npy" --sigma 20
check "nothing is left" [ ! -e "$work/n6.npy" ]
check "psnr" code 0 "$snls" metrics "$work/clips/a.npy" "$work/n1.npy" --no-clamp --json
noisy=$(number mean)

# eval
check "eval" code 0 "$snls" eval --data "$work/clips" --sigma 20,0 --method nlm --preset fast --json
check "two clips, two sigmas, their means" [ "$(grep -o '"clip"' "$work/out" | wc -l)" = 6 ]
check "the noise of snls noise" between "$(number psnr_noisy)" "$noisy-0.0001" "$noisy+0.0001"
check "less noise than before" between "$(number psnr)" "$noisy+3" 60
mkdir "$work/wide"; "$snls" noise "$work/clips/a.npy" "$work/wide/w.npy" --sigma 60 # pixels beyond 0..255, as YUV files have
check "a clip with pixels beyond 0..255" code 0 "$snls" eval --data "$work/wide" --sigma 0 --method nlm --json
check "a copy is perfect" grep -q '"psnr": null' "$work/out"
check "one clip" code 0 "$snls" eval --data "$work/clips" --sigma 20 --method nlm --only b. --frames 2 --crop 20
check "a table of head, clip, mean" [ "$(wc -l <"$work/out")" = 3 ]
# a metric that a clip has none of is told with its reason, once; one that failed is an error
"$snls" synth "$work/small.npy" --frames 1 --height 12 --width 6
check "a clip that is too small" code 0 "$snls" eval --data "$work/small.npy" --sigma 5,10 --method nlm --preset fast
check "a line for each metric" lines 2
check "why no SSIM" grep -q '^snls eval: small.npy: no SSIM: .*at least 7 x 7' "$work/err"
if "$snls" --version | grep -q 'lapack yes'; then
    check "why no ST-RRED" grep -q '^snls eval: small.npy: no ST-RRED: .*at least 2' "$work/err"
    if ! nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then # which need the room of addresses
        for mib in 80 120 160 200 240 320; do
            (ulimit -v $((mib * 1024)); OPENBLAS_NUM_THREADS=1 timeout -s KILL 10 "$snls" eval --data "$work/clips" --only a. --sigma 20 --method nlm --preset fast --radius 0 --flow none --threads 1 --json >"$work/out" 2>"$work/err")
            [ $? = 0 ] && check "ST-RRED without memory, of $mib MiB" [ "$(number strred)" ]
        done
    fi
fi
# a pan over few cells is no row of scenes
for size in "32 40" "48 56" "64 64"; do
    set -- $1 $2 $size
    "$snls" synth "$work/pan.npy" --height $3 --width $4 --seed 1 -y; "$snls" noise "$work/pan.npy" "$work/grain.npy" --sigma 20 -y
    check "denoise of $size" code 0 "$snls" denoise "$work/grain.npy" "$work/calm.npy" --sigma 20 --method nlm --preset fast --json -y
    check "a pan of $size is one scene: $(tr -d '\n' <"$work/out" | grep -o '"cuts": [^,]*')" grep -q '"cuts": 0' "$work/out"
done
# what is copied though nobody asked for it is said; a lead without noise does not switch the rest off
"${SNLS_PYTHON:-python3}" - "$work" <<'PY' && lead=1 || lead=
import sys
try: import numpy as np
except ImportError: sys.exit(1)
grain = np.random.default_rng(1).normal(0, 20, (12, 48, 64, 3)); grain[:5] = 0
clip = np.full((12, 48, 64, 3), 16.0); clip[5:] += 100 + 40 * np.sin(np.arange(64) / 9)[None, None, :, None]
np.save(sys.argv[1] + "/lead.npy", (clip + grain).astype("f4")); np.save(sys.argv[1] + "/black.npy", clip[:5].astype("f4"))
PY
if [ "$lead" ]; then
    check "a black lead" code 0 "$snls" denoise "$work/lead.npy" "$work/o.npy" --no-cuts --method nlm --preset fast --json -y
    check "noise behind it: $(tr -d '\n' <"$work/out" | grep -o '"sigma": [^]]*')" between "$(tr -d '\n ' <"$work/out" | grep -oE '"sigma":\[[0-9.]+' | cut -d[ -f2)" 18 22
    check "frames of the lead are copied" grep -qE "\"frames_without_noise\": [345]," "$work/out"
    check "and that is said" grep -q 'of 12 frames no noise was found' "$work/err"
    used() { tr -d '\n ' <"$work/out" | grep -oE "\"$1\":\[[^]]*|\"(sigma_range|frames_without_noise)\":\[?[0-9.,]*[0-9]" | sed 's/.*://' | head -3; }
    used sigma >"$work/want"
    check "the same to eval" code 0 "$snls" eval --data "$work/lead.npy" --sigma 0 --blind --method nlm --preset fast --json
    check "eval tells the noise of all frames as denoise does: $(used sigma_used | tr '\n' ' ')" [ "$(used sigma_used)" = "$(cat "$work/want")" ]
    mkdir "$work/both" && mv "$work/lead.npy" "$work/both" && cp "$work/black.npy" "$work/both"
    check "with a clip without noise" code 0 "$snls" eval --data "$work/both" --sigma 0 --blind --method nlm --preset fast
    check "which does not count in the mean" [ "$(awk '$1 == "mean" { print $9, $10, $11 }' "$work/out")" = "$(awk '$1 == "lead.npy" { print $9, $10, $11 }' "$work/out")" ]
    check "black alone" code 0 "$snls" denoise "$work/black.npy" "$work/o.npy" --method nlm --preset fast -y
    check "nothing was found" grep -q 'no noise was found, frames are copied' "$work/err"
fi
check "no folder" code 2 "$snls" eval
check "no such folder" code 3 "$snls" eval --data "$work/none"
check "no such clip" code 3 "$snls" eval --data "$work/clips" --only zzz
check "a bad sigma" code 2 "$snls" eval --data "$work/clips" --sigma 20,x
check "one line" lines 1
check "a bad preset" code 2 "$snls" eval --data "$work/clips" --preset hasty

# sigma auto on real clips: one cheap frame of each
data=$2/../shared/data/test
if [ -d "$data" ] && "$snls" --version | grep -q 'jpeg yes'; then
    only=davis sigmas=0,5,10,20,50
    nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init' && only=davis_tennis sigmas=0,20 # twelve times as slow: the path, not the figures
    check "blind" code 0 "$snls" eval --data "$data" --only $only --blind --sigma $sigmas --frames 1 --crop 240 --method nlm \
        --radius 0 --patches1 1 --window1 1 --flow none --json
    tr -d '\n ' <"$work/out" | grep -oE '"sigma":[0-9.]+|"sigma_used":\[[0-9.e,-]+\]|"clip":"[^"]*"' | paste -sd' ' | sed 's/"clip"/\n"clip"/g' |
        grep sigma | tr '":[],' '       ' | while read -r row; do
        set -- $row # clip NAME sigma S sigma_used R G B
        for used in $6 $7 $8; do
            awk "BEGIN { exit !($4 == 0 ? $used < 1 : $used > 0.9 * $4 && $used < 1.1 * $4) }" || echo "$2: sigma $4, estimated $used"
        done
    done >"$work/wrong"
    check "sigma is found within 10 %" [ ! -s "$work/wrong" ]
    cat "$work/wrong"
else
    echo "no ../shared/data/test or no JPEG: real clips are left out"
fi
exit $failed
