#!/usr/bin/env bash
# test_denoise_long.sh BUILD SOURCE: memory does not grow with the clip: five times as many frames have the same peak.
. "$2/tests/cli.sh"
if [ ! -e "$1/libsnls_ffmpeg.so" ] || ! command -v ffmpeg >/dev/null; then
    skip "libsnls_ffmpeg.so or the ffmpeg program is missing"
fi
if nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then skip "a sanitizer keeps freed memory"; fi
ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=s=48x32:r=25:d=24 -vf noise=alls=20:allf=t,format=yuv444p -c:v ffv1 long.mkv || bad "ffmpeg cannot make a clip"

peak() # FRAMES: KiB
{
    python3 - "$snls" "$1" <<'PY'
import resource, subprocess, sys
subprocess.run([sys.argv[1], "denoise", "long.mkv", "out.mkv", "-y", "--sigma", "20", "--preset", "fast", "--radius", "1", "--frames", sys.argv[2]],
               check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
}
short=$(peak 120) && long=$(peak 600) || bad "denoise failed"
[ $((long - short)) -lt 1536 ] || bad "600 frames take $long KiB, 120 take $short"

[ $failed = 0 ] && echo "test_denoise_long: ok ($short and $long KiB)"
exit $((failed > 0))
