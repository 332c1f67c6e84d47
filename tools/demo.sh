#!/bin/sh
# demo.sh BUILD_DIR: makes a clip with moving textures, adds noise, denoises it, prints PSNR before and after, and writes a report to look
# at. Then `snls demo`: the same kind of clip aligned with flow that is wrong by two pixels. Everything is left in BUILD_DIR/demo*.
set -eu
build=${1:?usage: demo.sh BUILD_DIR}
snls=$build/snls
[ -x "$snls" ] || { echo "demo.sh: $snls is not there; build first" >&2; exit 1; }
to=$build/demo-video
mkdir -p "$to"

sigma=20
"$snls" synth "$to/clean.npy" -y --frames 12 --height 192 --width 256 --seed 7 >/dev/null
"$snls" noise "$to/clean.npy" "$to/noisy.npy" -y --sigma $sigma --seed 1 >/dev/null
noisy=$to/noisy.npy
out=$to/denoised.npy
if [ -e "$build/libsnls_ffmpeg.so" ]; then
    # as a camera would give it: eight bits, clipped, in a file that players open
    "$snls" denoise "$to/noisy.npy" "$to/noisy.mkv" -y --sigma 0 >/dev/null 2>&1
    noisy=$to/noisy.mkv
    out=$to/denoised.mp4
fi
echo "A clip with noise of sigma $sigma, denoised (snls denoise $noisy $out; the noise is estimated):"
"$snls" denoise "$noisy" "$out" -y --clean "$to/clean.npy" --report "$to/report.html" --no-journal
echo "Open $to/report.html in a browser: a slider between before and after, what was taken away, the motion."
echo
echo "Frame t+1 aligned to frame t, with flow that is wrong by two pixels (snls demo):"
exec "$snls" demo -y --out "$build/demo"
