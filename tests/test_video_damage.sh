#!/usr/bin/env bash
# test_video_damage.sh BUILD SOURCE: damage for which decoders give pictures all the same: it is said how many frames and where, or refused
# where the decoder marks them; whole files that were cut or joined are taken in silence. ffmpeg makes the inputs.
# ctest: timeout=60
. "$2/tests/cli.sh"
if [ ! -e "$1/libsnls_ffmpeg.so" ] || ! command -v ffmpeg >/dev/null || ! command -v ffprobe >/dev/null; then
    skip "libsnls_ffmpeg.so or the ffmpeg program is missing"
fi
make() { ffmpeg -v fatal -nostdin -y "$@" || bad "ffmpeg cannot make ${*: -1}"; }
copy() { "$snls" denoise "$1" out.npy -y --sigma 0 --json ${2:+$2} >said 2>err || bad "$1 ${2:-}: $? $(cat err)"; }
refused() { "$snls" denoise "$1" no.npy --sigma 0 >said 2>err; local code=$?; [ $code = 3 ] && grep -q -- "$2" err && [ "$(wc -l <err)" = 1 ] && [ ! -e no.npy ] || bad "$1: $code $(cat err)"; rm -f no.npy; }
tells() { # FRAMES FIRST SECONDS: one line, and the number for programs
    grep -q "damaged frames: $1 at least, the first about frame $2 ($3 s)" err && [ "$(grep -c damaged err)" = 1 ] || bad "not $1 damaged from $2 on, but: $(cat err)"
    grep -q "\"damaged_frames\": $1," said || bad "--json: not $1 damaged: $(grep damaged said)"
}
silent() { ! grep -q damaged err && grep -q '"damaged_frames": 0,' said || bad "$1: $(cat err) $(grep damaged said)"; }
places() { ffprobe -v error -select_streams v:0 -show_entries packet=pos,size -of csv=p=0 "$1" | awk -F, '{ print $2, $1 }'; }
spoil() { # IN OUT PACKET...: zeros in the second half of packets, counted from 0 in the order of the file
    local in=$1 out=$2 n at; cp "$in" "$out"; shift 2
    for n; do at=($(places "$in" | sed -n $((n + 1))p)); dd if=/dev/zero of="$out" bs=1 seek=$((at[0] + at[1] / 2)) count=$((at[1] / 2)) conv=notrunc 2>/dev/null; done
}
scene="-f lavfi -i testsrc2=s=128x96:r=25:d=2,noise=alls=12:allf=t"

# a decoder that does not mark its frames: it goes on, and says so
make $scene -c:v mjpeg -q:v 4 whole.avi; copy whole.avi; silent whole.avi
spoil whole.avi part.avi 20; copy part.avi; tells 1 20 0.80; copy part.avi --lenient; tells 1 20 0.80
spoil whole.avi part.avi 0 7 8; copy part.avi; tells 3 0 0.00; copy part.avi '--first 5'; tells 2 7 0.28; copy part.avi '--first 10'; silent "behind the damage"; copy part.avi '--frames 5'; tells 1 0 0.00
"$snls" metrics whole.avi part.avi >said 2>err; grep -q 'part.avi: damaged frames: 3 at least' err && [ "$(wc -l <err)" = 1 ] || bad "metrics: $(cat err)"

# one that marks them: refused whatever its threads, and counted with --lenient
make $scene -c:v libx264 -preset fast -coder 0 -g 25 -bf 2 whole.mp4; make $scene -c:v libx264 -preset fast -coder 0 -g 25 -bf 2 -x264-params slices=4 slices.mp4; make $scene -c:v mpeg2video -q:v 4 -bf 2 whole.mkv
for clip in whole.mp4 slices.mp4 whole.mkv; do copy $clip; silent $clip; done
for n in 10 21 30 31 32 49; do spoil whole.mp4 part.mp4 $n; refused part.mp4 'a damaged frame behind frame'; done
spoil whole.mp4 part.mp4 30; copy part.mp4 --lenient; grep -Eq 'damaged frames: 1 at least, the first about frame [0-9]{1,2} ' err || bad "H.264: $(cat err)"
# a decoder is ahead of its frames: those before the damage are right, whatever it says of others
for n in 20 25 28; do copy part.mp4 "--frames $n"; silent "before the damage, $n frames"; copy part.mp4 "--lenient --frames $n"; silent "--lenient, $n frames"; done
for n in 20 28 29; do copy part.mp4 "--lenient --first $n"; grep -q 'damaged frames: 1 at least' err || bad "from frame $n on: $(cat err)"; done
spoil slices.mp4 part.mp4 30; refused part.mp4 'a damaged frame behind\|decoding fails behind'; copy part.mp4 --lenient; grep -q 'damaged frames: ' err || bad "H.264 of slices: $(cat err)"
spoil whole.mkv part.mkv 9 30; refused part.mkv 'a damaged frame behind frame'; copy part.mkv --lenient; grep -q 'damaged frames: 2 at least' err || bad "MPEG-2: $(cat err)"

# check sums: of H.265 where it has them, of FFV1 with --lenient, and where no slice of a file has a right one
if ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libx265; then
    make $scene -c:v libx265 -preset ultrafast -x265-params log-level=none:hash=1:keyint=25 sums.mp4; copy sums.mp4; silent sums.mp4
    at=($(places sums.mp4 | sed -n 21p)); cp sums.mp4 part.mp4; printf '\377\0\377\0' | dd of=part.mp4 bs=1 seek=$((at[0] + at[1] / 2)) conv=notrunc 2>/dev/null
    copy part.mp4; grep -Eq 'damaged frames: [0-9]+ at least, the first about frame [0-9]{1,2} ' err || bad "sums of H.265: $(cat err)"
fi
make $scene -c:v ffv1 -level 3 -slicecrc 1 -g 1 sums.mkv; spoil sums.mkv part.mkv 11 30; refused part.mkv 'a check sum is wrong'; copy part.mkv --lenient; grep -q 'damaged frames: 2 at least' err || bad "FFV1: $(cat err)"
make -i sums.mkv -frames:v 1 -c:v ffv1 -level 3 -slices 4 -slicecrc 1 one.mkv; make -i sums.mkv -frames:v 1 -c:v ffv1 -level 3 -slices 4 -slicecrc 0 nosums.mkv; copy one.mkv; silent one.mkv; copy nosums.mkv; silent nosums.mkv
at=($(places one.mkv)); cp one.mkv part.mkv
for k in 1 3 5 7; do dd if=one.mkv bs=1 skip=$((at[0] + at[1] * k / 8)) count=1 2>/dev/null | tr '\000-\377' '\200-\377\000-\177' | dd of=part.mkv bs=1 seek=$((at[0] + at[1] * k / 8)) conv=notrunc 2>/dev/null; done
refused part.mkv 'a check sum is wrong'

# cut at frames that need others, and joined: no damage
make $scene -c:v libx264 -preset fast -x264-params open-gop=1:keyint=12:bframes=3:scenecut=0 open.ts; make -ss 0.7 -i open.ts -c copy later.mkv; make $scene -c:v libx264 -preset fast -x264-params intra-refresh=1:keyint=12 refresh.ts
tail -c +$((188 * ($(wc -c <open.ts) / 376) + 1)) open.ts >tail.ts; tail -c +$((188 * ($(wc -c <refresh.ts) / 564) + 1)) refresh.ts >refreshed.ts; cat open.ts open.ts >joined.ts
for clip in open.ts later.mkv tail.ts refreshed.ts joined.ts; do copy $clip; silent $clip; done

[ $failed = 0 ] && echo "test_video_damage: ok"
exit $((failed > 0))
