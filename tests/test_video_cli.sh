#!/usr/bin/env bash
# test_video_cli.sh BUILD SOURCE: snls denoise --sigma 0 copies every kind of clip bit by bit, with its time stamps, tags and other
# streams. ffmpeg makes the inputs, ffprobe looks at the outputs.
# ctest: cost=37 timeout=240
. "$2/tests/cli.sh"
if [ ! -e "$1/libsnls_ffmpeg.so" ] || ! command -v ffmpeg >/dev/null || ! command -v ffprobe >/dev/null; then
    skip "libsnls_ffmpeg.so or the ffmpeg program is missing"
fi
has png || skip "this build has no PNG"
make() { ffmpeg -v error -nostdin -y "$@" || bad "ffmpeg cannot make ${*: -1}"; }
frames() { ffmpeg -v error -nostdin -i "$1" -map 0:v:0 -fps_mode passthrough ${2:+-pix_fmt $2} -f framemd5 - | grep -v '^#' | awk -F, '{ print $NF }'; }
copy() { "$snls" denoise "$1" "$2" -y --sigma 0 ${3:+$3} >log 2>err || bad "$1 to $2: $(cat err)"; }
same() { # IN OUT [FORMAT]: equal frames, and some
    frames "$1" "${3:-}" >want; frames "$2" "${3:-}" >got
    if ! [ -s want ] || ! cmp -s want got; then bad "$1 to $2: other frames"; fi
}
probe() { ffprobe -v error -select_streams v:0 -show_entries "stream=$2" -of csv=p=0 "$1"; }
noise() { # NAME SIZE FORMAT [OUTPUT OPTIONS]: three frames of random samples
    local name=$1 size=$2 format=$3; shift 3
    head -c 700000 "$work/random" | ffmpeg -v error -y -f rawvideo -s "$size" -pix_fmt "$format" -r 25 -i - -frames:v 3 "$@" "$name" 2>/dev/null
    [ -s "$name" ] || bad "ffmpeg cannot make $name"
}
head -c 700000 /dev/urandom >random

# depths, samplings, odd sizes; lossless containers keep the format, others what they can
noise y8.mkv 63x35 yuv420p -c:v ffv1; noise y10.mkv 63x35 yuv422p10le -c:v ffv1; noise y16.mkv 62x34 yuv444p16le -c:v ffv1
noise g8.mkv 63x35 gray -c:v ffv1; noise g12.mkv 62x34 gray12le -c:v ffv1; noise rgb16.mkv 63x35 gbrp16le -c:v ffv1
noise alpha.mkv 62x34 yuva420p -c:v ffv1; noise nv.nut 62x34 nv12 -c:v rawvideo; noise pal.avi 62x34 pal8 -c:v rawvideo
noise y12.mkv 62x34 yuv420p12le -c:v ffv1; noise mono.nut 64x34 monow -c:v rawvideo
for clip in y8 y10 y16 g8 g12 rgb16 alpha y12; do
    copy $clip.mkv out.mkv
    [ "$(probe $clip.mkv pix_fmt,width,height)" = "$(probe out.mkv pix_fmt,width,height)" ] || bad "$clip: format $(probe out.mkv pix_fmt,width,height)"
    same $clip.mkv out.mkv
done
copy nv.nut nv.mkv; same nv.nut nv.mkv yuv420p
copy pal.avi pal.mkv; same pal.avi pal.mkv rgba
copy mono.nut mono.mkv; same mono.nut mono.mkv gray
# grey that no encoder has in this order of bytes, or with these bits: more bits, never colour with fewer
noise big.nut 62x34 gray16be -c:v rawvideo; make -i big.nut -c:v rawvideo -pix_fmt gray14le g14.nut; noise clear.mov 62x34 ya16be -c:v png
for clip in big.nut g14.nut; do
    for out in grey.mkv grey.y4m; do
        copy $clip $out; [ ! -s err ] || bad "$clip: $(cat err)"
        case $clip.$out.$(probe $out pix_fmt) in *.gray16le | g14.nut.grey.mkv.gray14le) ;; *) bad "$clip: $(probe $out pix_fmt)" ;; esac # FFV1 has 14 bits since FFmpeg 7
    done
done
copy big.nut grey.mkv; same big.nut grey.mkv gray16le; copy clear.mov clear16.mkv; same clear.mov clear16.mkv rgba64le
noise even.mkv 62x34 yuv422p10le -c:v ffv1
for clip in even y12; do copy $clip.mkv $clip.mp4; same $clip.mkv $clip.mp4; done
copy y8.mkv y8.webm; same y8.mkv y8.webm
for clip in y8 y10 y16 even; do copy $clip.mkv $clip.y4m; same $clip.mkv $clip.y4m; done # odd widths of ten bits too
copy g12.mkv g12.y4m; same g12.mkv g12.y4m
copy y16.mkv y16.mp4; grep -q '16 bits a sample become 12' err || bad "lost bits are not mentioned: $(cat err)"
noise gbr.mkv 62x34 gbrp -c:v ffv1; copy gbr.mkv gbr.y4m; grep -q 'RGB becomes yuv444p: colours are rounded; .mkv keeps RGB' err || bad "RGB in y4m is not mentioned: $(cat err)"
copy gbr.mkv gbr2.mkv; [ ! -s err ] || bad "a copy of RGB says: $(cat err)"
copy even.mkv coarse.mkv '--pix-fmt=yuv420p10le'; grep -q 'colour becomes coarser: yuv420p10le' err || bad "coarser colour is not mentioned: $(cat err)"

# frames of a few pixels, for which FFV1 has no slices
small() { # WIDTH HEIGHT COLOUR BYTES: y4m of two frames
    printf 'YUV4MPEG2 W%d H%d F25:1 Ip C%s\nFRAME\n' $1 $2 $3; head -c $4 random; printf 'FRAME\n'; tail -c $4 random
}
for case in "1 1 mono 1" "7 1 mono 7" "2 9 444 54" "9 2 mono 18" "3 5 420jpeg 27" "1 9 420jpeg 19" "9 3 420jpeg 47" "2 300 mono16 1200"; do
    small $case >small.y4m; copy small.y4m small.mkv; same small.y4m small.mkv
done
"$snls" denoise small.y4m x.mkv --sigma 0 --enc-opt level=3 >log 2>err; [ $? = 4 ] && grep -q 'too small for ffv1 with slices' err && [ ! -e x.mkv ] || bad "slices of a few pixels: $(cat err)"

# one sample of colour for four pixels of a row, where rows are no multiple of four: slices of FFV1 would lose the last, ffvhuff writes wrong ones
for case in "yuv411p mkv" "yuv410p avi"; do
    set -- $case; noise quarter.nut 70x50 $1 -c:v rawvideo; copy quarter.nut quarter.$2; same quarter.nut quarter.$2
done
copy quarter.nut huff.mkv '--vcodec ffvhuff'; "$snls" metrics quarter.nut huff.mkv --json 2>&1 | grep -q '"mean": null' || bad "4:1:0 in ffvhuff: $(cat log)"
refused() { "$snls" denoise quarter.nut x.mkv --sigma 0 "$@" >log 2>err; [ $? = 4 ] && grep -q "$words" err && [ ! -e x.mkv ] || bad "4:1:0 with $*: $(cat err)"; }
words='yuv410p is too coarse for ffv1 with slices.* leave out --enc-opt level' refused --enc-opt level=3; words='ffvhuff damages it in frames of 70 x 50' refused --vcodec ffvhuff --pix-fmt yuv411p

# pictures hold RGB: a copy of YUV into them is not lossless, and that is said; one of pictures is
"$snls" denoise even.mkv rgb/ -y --sigma 0 >log 2>err; grep -q 'YUV becomes RGB in PNG' err && ! grep -q lossless log || bad "YUV into pictures: $(cat log err)"
"$snls" denoise rgb/ rgb2/ -y --sigma 0 >log 2>err; ! [ -s err ] && grep -q 'png, rgb.*, lossless' log || bad "pictures into pictures: $(cat log err)"

# H.265 of frames smaller than a block of x265, whose rate control writes behind its memory there; its chatter stays away, whatever it is asked for
if ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libx265; then
    make -f lavfi -i testsrc=s=40x40:d=0.3:r=25 -pix_fmt yuv420p12le -c:v ffv1 little12.mkv
    for more in '' '--enc-opt x265-params=ref=2' '--enc-opt x265-params=cutree=1' '--enc-opt x265-params=no-cutree=0:ref=2'; do
        "$snls" denoise little12.mkv little12.mp4 -y --sigma 5 --preset fast $more >log 2>err || bad "H.265 of 40 x 40 $more: $?"
        ! grep -q 'x265 \[' err && [ "$(frames little12.mp4 | wc -l)" = 8 ] || bad "H.265 of 40 x 40 $more: $(head -2 err)"
    done
    "$snls" denoise little12.mkv little12.mp4 -y --sigma 0 --lossless --enc-opt x265-params=ref=2 >log 2>err; same little12.mkv little12.mp4
fi

# the aspect of pixels, of containers whose frames do not carry it
make -f lavfi -i testsrc2=s=32x32:r=25:d=0.1 -vf setsar=12/11 -pix_fmt yuv420p aspect.y4m; make -i aspect.y4m -c:v ffv1 aspect.avi
for clip in aspect.y4m aspect.avi; do copy $clip aspect.mkv; [ "$(probe aspect.mkv sample_aspect_ratio)" = 12:11 ] || bad "$clip: aspect $(probe aspect.mkv sample_aspect_ratio)"; done
"$snls" denoise aspect.y4m - --sigma 0 2>/dev/null | head -1 | grep -q ' A12:11 ' || bad "y4m to y4m: another aspect"

# y4m through pipes, in both directions; what ffmpeg writes for ten bits too
ffmpeg -v error -i even.mkv -strict -1 -f yuv4mpegpipe - | "$snls" denoise - - --sigma 0 2>err | ffmpeg -v error -y -f yuv4mpegpipe -i - -c:v ffv1 piped.mkv
same even.mkv piped.mkv
# pipes with a name come once too: y4m, and a file with other streams, which are then left out
make -f lavfi -i testsrc2=s=62x34:r=25:d=0.2 -f lavfi -i sine=d=0.2 -c:v ffv1 -c:a pcm_s16le heard.mkv; make -i heard.mkv heard.y4m; mkfifo named.y4m
timeout 20 bash -c "cat heard.y4m >named.y4m" & timeout 20 "$snls" denoise named.y4m piped.mkv -y --sigma 0 >log 2>err || bad "a pipe with a name: $? $(cat err)"; wait; same heard.y4m piped.mkv
timeout 20 "$snls" denoise <(cat heard.y4m) piped.mkv -y --sigma 0 >log 2>err || bad "/dev/fd: $(cat err)"; same heard.y4m piped.mkv; [ ! -s err ] || bad "/dev/fd: $(cat err)"
cat heard.y4m | timeout 20 "$snls" denoise /dev/stdin piped.mkv -y --sigma 0 >log 2>err || bad "/dev/stdin: $(cat err)"; same heard.y4m piped.mkv
cat heard.mkv | timeout 20 "$snls" denoise /dev/stdin piped.mkv -y --sigma 0 >log 2>err || bad "/dev/stdin, .mkv: $(cat err)"; same heard.mkv piped.mkv
grep -q 'audio, subtitles and chapters are left out: /dev/stdin is a pipe' err || bad "sound that a pipe loses is not mentioned: $(cat err)"
timeout 20 "$snls" noise <(cat heard.y4m) noisy.mkv --sigma 5 >log 2>err; [ $? = 2 ] && grep -q 'needs IN a second time' err || bad "noise of a pipe: $(cat err)"
for command in "denoise --sigma 0" "noise --sigma 3"; do
    set -- $command
    "$snls" $1 y8.mkv - $2 $3 2>/dev/null >want.y4m; mkfifo pipe; cat pipe >got.y4m & "$snls" $1 y8.mkv pipe $2 $3 >log 2>err || bad "$1 into a pipe: $(cat err)"
    wait $!; rm pipe; cmp -s want.y4m got.y4m || bad "$1: another stream in a named pipe"
    "$snls" $1 y8.mkv /dev/stdout $2 $3 2>err | cmp -s - want.y4m || bad "$1: another stream on /dev/stdout: $(cat err)"
    "$snls" $1 y8.mkv /dev/null $2 $3 >log 2>err || bad "$1 to /dev/null: $(cat err)"
    "$snls" $1 y8.mkv /dev/stdout $2 $3 --json >log 2>err; [ $? = 2 ] || bad "$1: /dev/stdout beside --json: $(cat err)"
done

# pictures: a folder, a pattern, 16 bits; .npy and back
copy rgb16.mkv folder; [ "$(ls folder | tr '\n' ' ')" = "00000.png 00001.png 00002.png " ] || bad "folder: $(ls folder)"
copy folder back.mkv; same rgb16.mkv back.mkv rgb48le
copy y8.mkv 100%.mkv; same y8.mkv 100%.mkv
# the rate of pictures: a fraction, television's rates however many digits they are written with, other decimals as they are
for case in 25,25:1 30000/1001,30000:1001 50/2,25:1 23.976,24000:1001 23.98,24000:1001 23.97602,24000:1001 29.97,30000:1001 29.970,30000:1001 29.97003,30000:1001 29.97002997,30000:1001 47.95,48000:1001 59.94,60000:1001 119.88,120000:1001 \
    239.76,240000:1001 23.97,2397:100 23.977,23977:1000 29.98,1499:50 29.9,299:10 59.95,1199:20 12.5,25:2 100.001,100001:1000; do
    "$snls" denoise folder - --sigma 0 --fps ${case%,*} 2>err | head -1 | tr -d '\0' | grep -aq " F${case#*,} " || bad "--fps ${case%,*}: no ${case#*,}: $(cat err)"
done
copy folder fps.avi '--fps 119.88'; [ "$(probe fps.avi time_base)" = 1001/120000 ] || bad "--fps 119.88 in .avi: $(probe fps.avi time_base)"
for rate in 30000/0 /1001 30000/ 30000/1001x 1/1000 -30/1 3e4/1001 0x19 ' 25'; do
    "$snls" denoise folder x.mkv --sigma 0 --fps "$rate" >log 2>err; [ $? = 2 ] && grep -q -- '--fps is .*, must be 0.01 to 10000, or a fraction such as 30000/1001' err || bad "--fps '$rate': $(cat err)"
done
copy folder/00001.png single.png; cmp -s folder/00001.png single.png || bad "one picture is copied otherwise"
mkdir tiff; make -i rgb16.mkv -pix_fmt rgb48le tiff/%02d.tiff; copy tiff tiff.mkv; same rgb16.mkv tiff.mkv rgb48le
copy tiff/%02d.tiff new/%05d.png; cmp -s folder/00002.png new/00002.png || bad "TIFF by a pattern, into a folder that is new: $(ls new)"
if has jpeg && command -v python3 >/dev/null; then # colour profiles: sRGB's is what everybody takes for granted, others are told
    make -f lavfi -i testsrc2=s=32x24 -frames:v 1 -pix_fmt yuvj420p plain.jpg; make -i plain.jpg plain.png
    python3 - <<'END'
import zlib
jpeg, png = open("plain.jpg", "rb").read(), open("plain.png", "rb").read()
def app(mark, data): return b"\xff" + bytes([mark]) + (len(data) + 2).to_bytes(2, "big") + data
def chunk(kind, data): return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
exif = app(0xe1, b"Exif\0\0" + bytes(60000))
for name, words in (("wide", b"Display P3"), ("usual", b"sRGB IEC61966-2.1"), ("usual16", "sRGB".encode("utf-16-be"))):
    profile = bytes(128) + words + bytes(300)
    open(name + ".jpg", "wb").write(jpeg[:2] + exif + app(0xe2, b"ICC_PROFILE\0\1\1" + profile) + jpeg[2:])
    if name != "usual16": open(name + ".png", "wb").write(png[:33] + chunk(b"iCCP", words + b"\0\0" + zlib.compress(profile)) + png[33:])
END
    for clip in wide.jpg wide.png; do copy $clip flat.png; grep -q 'the colour profile (ICC) of the pictures is left out' err && [ "$(wc -l <err)" = 1 ] || bad "$clip: its profile is not mentioned: $(cat err)"; done
    for clip in usual.jpg usual16.jpg usual.png plain.jpg plain.png; do copy $clip flat.png; [ ! -s err ] || bad "$clip: $(cat err)"; done
fi
if has jpeg && command -v python3 >/dev/null; then # EXIF's word for which side is up is lost, and told; bytes of filling may stand before it
    make -f lavfi -i testsrc2=s=32x24 -frames:v 2 -pix_fmt yuvj420p turned%d.jpg
    make -i turned1.jpg upright.png
    for order in big little; do
        python3 - $order 6 turned2.jpg <<'END'
import sys, zlib
order, number, name = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def n(value, size): return value.to_bytes(size, order)
data = open("turned1.jpg", "rb").read()
tiff = (b"MM" if order == "big" else b"II") + n(42, 2) + n(8, 4) + n(2, 2) + n(0x100, 2) + n(3, 2) + n(1, 4) + n(32, 2) + n(0, 2) + n(0x112, 2) + n(3, 2) + n(1, 4) + n(number, 2) + n(0, 2) + n(0, 4)
exif = b"Exif\0\0" + tiff
open(name, "wb").write(data[:2] + b"\xff\xff\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:])
open("upright.jpg", "wb").write(data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif.replace(n(number, 2) + n(0, 6), n(1, 2) + n(0, 6)) + data[2:])
png = open("upright.png", "rb").read()
open("turned.png", "wb").write(png[:33] + len(tiff).to_bytes(4, "big") + b"eXIf" + tiff + zlib.crc32(b"eXIf" + tiff).to_bytes(4, "big") + png[33:])
for size in range(1, len(exif)): open("short%d.jpg" % size, "wb").write(data[:2] + b"\xff\xe1" + (size + 2).to_bytes(2, "big") + exif[:size] + data[2:])
END
        copy turned%d.jpg turned_%d.png; grep -q 'turned2.jpg: is not turned as its EXIF data says' err && [ "$(wc -l <err)" = 1 ] || bad "EXIF, $order: $(cat err)"
        copy turned.png flat.png; grep -q 'turned.png: is not turned as its EXIF data says' err || bad "EXIF of a PNG, $order: $(cat err)"
        copy upright.png flat.png; [ ! -s err ] || bad "a PNG without EXIF: $(cat err)"
        copy upright.jpg flat.png; [ ! -s err ] || bad "EXIF of an upright picture, $order: $(cat err)"
        copy short%d.jpg turned_%d.png; rm turned_*.png
    done
fi
mkdir some some/b.png; cp folder/00000.png some/a.png; cp folder/00001.png some/c.png; copy some some2; [ "$(ls some2 | tr '\n' ' ')" = "00000.png 00001.png " ] && cmp -s folder/00001.png some2/00001.png || bad "a folder of the name of a picture: $(cat err)"
ln -s nowhere some/d.png; "$snls" denoise some no.mkv --sigma 0 >log 2>err; [ $? = 3 ] && grep -q 'some/d.png' err || bad "a picture that leads nowhere: $(cat err)"
mkdir deep; make -f lavfi -i testsrc2=s=32x24 -frames:v 1 -pix_fmt rgb24 deep/0.png; cp deep/0.png deep/2.png # one depth for all, which is that of the deepest picture
make -f lavfi -i testsrc2=s=32x24 -frames:v 1 -vf "format=gbrp16,geq=r='X*2001+Y':g='Y*1777':b='65535-X*Y'" -pix_fmt rgb48be deep/1.png
for in in deep deep/%d.png; do
    "$snls" denoise $in deep2/ -y --sigma 0 >log 2>err; ! [ -s err ] && grep -q 'png, rgb48le, lossless' log || bad "a deep picture among others: $(cat log err)"
    same deep/1.png deep2/00001.png rgb48le; "$snls" metrics deep deep2 --json 2>&1 | grep -q '"mean": null' || bad "a deep picture among others: they are other pixels"
done
"$snls" denoise deep deep3/ --sigma 0 --first 2 >log 2>err; cmp -s deep/2.png deep3/00000.png || grep -q 'png, rgb24, lossless' log || bad "a part without the deep picture: $(cat log err)"
for i in 0 1 2; do make -i deep/$i.png tiff/deep$i.tif; done; "$snls" denoise tiff/deep%d.tif deep4/ --sigma 0 >log 2>err # its depth is known only when it comes
grep -q 'from frame 1 on pictures have 16 bits a sample, before 8' err && grep -q rgb24 log && ! grep -q lossless log || bad "a deep TIFF among others: $(cat log err)"
copy folder/%05d.png p_%02d.png; cmp -s folder/00001.png p_01.png || bad "a pattern gives other pictures"
mkdir from2; for i in 0 1 2; do cp folder/0000$i.png from2/0000$((i + 2)).png; done # a pattern begins at its lowest number; --first counts frames, as everywhere
cp folder/00000.png from2/00001.jpg; cp folder/00000.png from2/1.png
for first in 0 1 2; do copy from2/%05d.png tail_%d.png "--first $first"; cmp -s folder/0000$first.png tail_0.png || bad "--first $first of numbers from 2"; [ ! -e tail_$((3 - first)).png ] || bad "--first $first: too many"; rm -f tail_*; done
"$snls" denoise from2/%05d.png tail_%d.png --sigma 0 --first 3 >log 2>err; [ $? = 2 ] && grep -q 'has 3 frames, the first wanted is number 3' err || bad "--first 3 of 3: $(cat err)"
mkdir set7 set8; cp folder/00000.png set7/a.png; cp folder/00001.png set8/a.png; copy set%d/a.png tail_%d.png; cmp -s folder/00001.png tail_1.png || bad "a pattern of folders"
copy rgb16.mkv rgb.npy; copy rgb.npy again.npy; cmp -s rgb.npy again.npy || bad ".npy to .npy"
"$snls" denoise folder one.npy -y --sigma 0 --first 1 --last 1 >/dev/null 2>&1 && "$snls" denoise folder/00001.png two.npy -y --sigma 0 >/dev/null 2>&1 && cmp -s one.npy two.npy || bad "--first --last"
"$snls" denoise y8.mkv - --sigma 0 --frames 2 2>/dev/null | ffmpeg -v error -y -f yuv4mpegpipe -i - -c:v ffv1 two.mkv
[ "$(frames y8.mkv | head -2)" = "$(frames two.mkv)" ] || bad "--frames 2"

# variable frame rate, full range, HDR tags, aspect, rotation
make -f lavfi -i testsrc2=s=96x64:r=25:d=1.2 -vf "select='not(mod(n,3))+eq(n,4)',setsar=4/3" -fps_mode vfr -c:v libx264 -preset ultrafast -color_range pc -colorspace bt709 -color_primaries bt709 -color_trc bt709 vfr.mp4
times() { ffprobe -v error -select_streams v -show_entries packet=pts_time -of csv=p=0 "$1" | sort -n; }
for out in vfr2.mp4 vfr2.mkv; do
    copy vfr.mp4 $out; same vfr.mp4 $out
    [ "$(times vfr.mp4)" = "$(times $out)" ] || bad "$out: other time stamps"
    tags=color_range,color_space,color_transfer,color_primaries,sample_aspect_ratio
    [ "$(probe vfr.mp4 $tags)" = "$(probe $out $tags)" ] || bad "$out: tags $(probe $out $tags) instead of $(probe vfr.mp4 $tags)"
done
copy vfr.mp4 vfr.y4m; grep -q 'frame rate varies' err || bad "a lost rate is not mentioned: $(cat err)"

# files that know a rate, not times: the clip's, whatever clock it came with (a rate of the clock plays hundreds of times too fast)
make -f lavfi -i testsrc2=s=96x64:r=25:d=0.4 -c:v libx264 -preset ultrafast rate.mp4; make -i rate.mp4 -c copy rate.ts
for in in rate.mp4 rate.ts; do
    for out in mpg mxf m2v avi ogv; do
        copy $in rate.$out
        # one of both: of Ogg ffprobe tells no mean, and of MPEG-1 later ones count fields
        ffprobe -v error -select_streams v:0 -count_frames -show_entries stream=r_frame_rate,avg_frame_rate,nb_read_frames -of csv=p=0 rate.$out | tr '\n' ' ' | grep -qE '(^|,)25/1,(.*,)?10\b' ||
            bad "$in to .$out: $(probe rate.$out r_frame_rate,avg_frame_rate,nb_frames)"
    done
done
copy vfr.mp4 vfr.mpg; grep -q 'frame rate varies' err || bad "a rate lost in .mpg is not mentioned: $(cat err)"
ffmpeg -hide_banner -h full 2>/dev/null | grep -q -- -display_rotation && make -display_rotation 90 -i vfr.mp4 -c copy turned.mp4 || make -i vfr.mp4 -c copy -metadata:s:v rotate=90 turned.mp4
rotation() { ffprobe -v error -show_entries stream_side_data=rotation -of csv=p=0 "$1" | tr -dc '[:digit:]'; }
copy turned.mp4 turned2.mp4; [ "$(rotation turned2.mp4)" = 90 ] || bad "the rotation is lost"
copy turned.mp4 turned.mkv; [ "$(rotation turned.mkv)" = 90 ] && [ ! -s err ] || grep -q 'the rotation is not marked in the output: matroska has no place' err || bad "turned.mkv: $(rotation turned.mkv) $(cat err)"
for out in turned.npy turned turned_%d.png; do
    copy turned.mp4 $out "--frames 2"; grep -q 'the rotation is not marked in the output: .* has no place' err || bad "$out: a lost rotation is not mentioned: $(cat err)"
done
grep -q 'the shape of pixels, 4:3, is not marked in the output: png' err || bad "a lost aspect is not mentioned: $(cat err)"

# audio, subtitles, chapters, an attachment, tags
printf '1\n00:00:00,100 --> 00:00:00,900\nhello\n\n' >s.srt
printf ';FFMETADATA1\ntitle=Film\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=500\ntitle=One\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=500\nEND=1000\ntitle=Two\n' >meta
make -f lavfi -i testsrc2=s=96x64:r=25:d=1 -f lavfi -i sine=d=1 -i s.srt -i meta -map 0 -map 1 -map 2 -map_metadata 3 -map_chapters 3 -c:v libx264 -preset ultrafast -c:a aac -c:s srt -metadata:s:a language=deu -attach s.srt -metadata:s:t mimetype=text/plain full.mkv
copy full.mkv full2.mkv; same full.mkv full2.mkv
what='stream=index,codec_type:stream_tags=language,filename,mimetype:chapter=start_time,end_time:chapter_tags=title:format_tags=title'
make -i full.mkv -map 0 -c copy full3.mkv # begins at 0, which full.mkv need not where the sound has a priming
[ "$(ffprobe -v error -show_chapters -show_entries "$what" -of compact full3.mkv)" = "$(ffprobe -v error -show_chapters -show_entries "$what" -of compact full2.mkv)" ] || bad "streams, chapters or tags differ"
packets() { ffmpeg -v error -nostdin -i "$1" -map "0:$2" -c copy -f streamhash - ; }
[ "$(packets full.mkv a)" = "$(packets full2.mkv a)" ] || bad "audio differs"
[ "$(packets full.mkv s)" = "$(packets full2.mkv s)" ] || bad "subtitles differ"
copy full.mkv full.mp4; grep -q 'streams 2 (subtitle, subrip), 3 (attachment, [a-z_]*) are left out: mp4 cannot hold them' err || bad "a lost subtitle is not mentioned: $(cat err)"
[ "$(packets full.mkv a)" = "$(packets full.mp4 a)" ] || bad "audio differs in mp4"
copy full.mkv full.ts; [ "$(ffprobe -v error -show_entries stream=codec_name -of csv=p=0 full.ts | sort -u | tr -d '\n')" = aach264 ] || bad "audio is lost in .ts: $(cat err)"
grep -q 'chapters are left out: mpegts' err || bad "lost chapters are not mentioned: $(cat err)"
make -f lavfi -i testsrc2=s=96x64:r=25:d=0.4 -f lavfi -i sine=d=0.4:r=48000 -c:v ffv1 -c:a pcm_s24le pcm.mkv
copy pcm.mkv pcm.mxf; [ "$(packets pcm.mkv a)" = "$(packets pcm.mxf a)" ] || bad "audio differs in mxf: $(cat err)"
for out in full.npy full_%d.png; do
    copy full.mkv $out "--frames 2"; grep -q 'streams 1 (audio, aac), 2 (subtitle, subrip), 3 (attachment, .*) are left out: ' err && grep -q 'chapters are left out: ' err || bad "$out: what is lost is not mentioned: $(cat err)"
done
copy full.mkv mute.npy --no-copy; [ ! -s err ] || bad "--no-copy: $(cat err)"
# titles and languages: kept where FFmpeg has a place for them, under the word that it takes; else named
make -i full.mkv -t 0.2 -map 0:v -map 0:a -c copy -map_chapters -1 -metadata title=Film -metadata:s:a title=Kommentar told.mkv
tags() { ffprobe -v error -select_streams a -show_entries stream_tags=language,$2:format_tags=title -of csv=p=0 "$1" | tr '\n' ' '; }
copy told.mkv told.mov; [ ! -s err ] && [ "$(tags told.mov handler_name)" = "ger,Kommentar Film " ] || bad ".mov: $(tags told.mov handler_name) $(cat err)" # QuickTime's number for deu
copy told.mov told.mp4; [ ! -s err ] && [ "$(tags told.mp4 handler_name)" = "ger,Kommentar Film " ] || bad ".mp4: $(tags told.mp4 handler_name) $(cat err)"
lost() { copy told.mkv "told.$1"; grep -q "not kept: $2; $3 has no place for it, .mkv does" err && [ "$(wc -l <err)" = "$4" ] || bad ".$1: $(cat err)"; }
lost ts 'title of stream 1' mpegts 1; lost avi 'language of stream 1' avi 1; lost y4m title yuv4mpegpipe 2
make -i told.mkv -c copy -map 0 -metadata:s:a language=mri told2.mkv; mv told2.mkv told.mkv; lost mov 'language of stream 1' mov 1 # QuickTime has no number for it
copy full.mkv mute.mkv --no-copy; [ "$(ffprobe -v error -show_entries stream=codec_type -of csv=p=0 mute.mkv)" = video ] || bad "--no-copy copies"
copy full.mkv part.mkv "--first 10 --frames 5"; [ "$(frames full.mkv | sed -n 11,15p)" = "$(frames part.mkv)" ] || bad "--first with audio"
awk "BEGIN { d = $(ffprobe -v error -show_entries format=duration -of csv=p=0 part.mkv); exit !(d > 0.15 && d < 0.3) }" || bad "a part of 0.2 s has another length"

# other commands read videos too: a clip against itself is without error, whatever colours it has
"$snls" metrics vfr.mp4 vfr2.mkv --json >said 2>err && grep -q '"mean": null' said || bad "metrics of videos: $(cat err said)"
"$snls" flow vfr.mp4 flow.npy --method dis --json >said 2>err && grep -q '"pairs"\|"shape"\|epe\|motion' said || bad "flow of a video: $(cat err said)"

# a GIF, WebM; interlaced is refused, unless told
make -f lavfi -i testsrc2=s=96x64:r=10:d=0.5 a.gif; copy a.gif gif.mkv; same a.gif gif.mkv rgb24
make -f lavfi -i testsrc2=s=96x64:r=25:d=0.5 -c:v libvpx-vp9 -deadline realtime a.webm; copy a.webm webm.mkv; same a.webm webm.mkv
make -f lavfi -i testsrc2=s=96x64:r=50:d=0.5 -vf "tinterlace=interleave_top,setfield=tff" -flags +ilme+ildct -c:v mpeg2video i.mpg
"$snls" denoise i.mpg i.mkv --sigma 0 2>err; [ $? = 4 ] && grep -q interlaced err && [ ! -e i.mkv ] || bad "interlaced: $(cat err)"
copy i.mpg i.mkv --progressive

[ $failed = 0 ] && echo "test_video_cli: ok"
exit $((failed > 0))
