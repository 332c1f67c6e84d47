#!/usr/bin/env bash
# Counts how much of the damage in a file is noticed: of ten copies of a clip each, with one packet damaged, how many snls refuses (3) and how many it tells of. Makes the clips with ffmpeg, in a
# folder of its own; a codec that ffmpeg cannot write is left out. docs/video.md has the table.
#   tools/damaged_copies.sh BUILD/snls
set -u
snls=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
copies=10 frames=75

make() { ffmpeg -v fatal -nostdin -y -f lavfi -i testsrc2=s=320x240:r=25:d=3,noise=alls=12:allf=t "$@" 2>/dev/null; }

# KIND CLIP N: the packet in the middle of the N-th tenth of the file, spoiled
spoil()
{
    python3 - "$1" "$2" "$3" <<'PY'
import random, subprocess, sys
kind, clip, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
rows = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size", "-of", "csv=p=0", clip], stdout=subprocess.PIPE).stdout.decode().split()
packets = [(int(b), int(a)) for a, b in (row.strip(",").split(",")[:2] for row in rows) if b != "N/A"]
at, size = packets[(2 * n + 1) * len(packets) // 20]
data = bytearray(open(clip, "rb").read())
r = random.Random(n)
where = at + size // 4 + r.randrange(max(size // 2, 1))
if kind == "bit":
    data[where] ^= 1 << r.randrange(8)
else:
    end = at + size if kind == "end" else min(where + 64, at + size)
    data[where:end] = bytes(end - where)
open("part." + clip.rsplit(".", 1)[1], "wb").write(data)
PY
}

# NAME CLIP: of each kind of damage, refused and told
count()
{
    local kind n code line=$1
    for kind in bit some end; do
        local refused=0 told=0
        for ((n = 0; n < copies; n++)); do
            spoil $kind "$2" $n
            "$snls" denoise "part.${2##*.}" out.npy -y --sigma 0 > said 2> err; code=$?
            [ $code = 3 ] && refused=$((refused + 1))
            [ $code = 0 ] && grep -q 'damaged frames' err && told=$((told + 1))
        done
        line="$line | $((refused + told)) ($refused refused)"
    done
    echo "$line"
}

echo "of $copies copies with one packet damaged, noticed | one bit | 64 bytes | to the end"
try() { local name=$1 clip=$2; shift 2; make -frames:v $frames "$@" "$clip" && count "$name" "$clip"; }
try "H.264, CABAC" a.mp4 -c:v libx264 -g 25 -bf 2
try "H.264, CABAC, four slices a frame" b.mp4 -c:v libx264 -g 25 -bf 2 -x264-params slices=4
try "H.264, CAVLC" c.mp4 -c:v libx264 -g 25 -bf 2 -coder 0
try "MPEG-2" d.mkv -c:v mpeg2video -q:v 4 -bf 2
try "MPEG-4" e.mp4 -c:v mpeg4 -q:v 4
try "ProRes" f.mov -c:v prores_ks
try "MJPEG" g.avi -c:v mjpeg -q:v 4
try "H.265 with sums" h.mp4 -c:v libx265 -preset ultrafast -x265-params log-level=none:hash=1:keyint=25
try "H.265 without" i.mp4 -c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25
try "AV1" j.mkv -c:v libaom-av1 -cpu-used 8 -crf 30 -g 25
try "VP9" k.webm -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25
try "VP8" l.webm -c:v libvpx -deadline realtime -cpu-used 8 -g 25
try "Theora" m.ogv -c:v libtheora -q:v 7 -g 25
