#!/usr/bin/env bash
# test_video_streams.sh BUILD SOURCE: clips whose streams, clocks and tags are not the usual ones: what is kept is right, and what cannot
# be kept is said. ffmpeg makes the inputs, ffprobe looks at the outputs.
# ctest: cost=29 timeout=240
. "$2/tests/cli.sh"
if [ ! -e "$1/libsnls_ffmpeg.so" ] || ! command -v ffmpeg >/dev/null || ! command -v ffprobe >/dev/null; then
    skip "libsnls_ffmpeg.so or the ffmpeg program is missing"
fi
make() { ffmpeg -v fatal -nostdin -y "$@" || bad "ffmpeg cannot make ${*: -1}"; }
copy() { "$snls" denoise "$1" "$2" -y --sigma 0 ${3:+$3} >log 2>err || bad "$1 to $2 ${3:-}: $? $(cat err)"; }
says() { grep -q -- "$1" err || bad "not said: $1; but: $(cat err)"; }
silent() { [ ! -s err ] || bad "$1: says $(cat err)"; }
refused() { # CODE WORDS IN OUT [OPTION]: nothing is left, one line says why
    "$snls" denoise "$3" "$4" --sigma 0 ${5:+$5} >log 2>err; local code=$?
    [ $code = $1 ] && grep -q -- "$2" err && [ "$(wc -l <err)" = 1 ] && [ ! -e "$4" ] || bad "$3 to $4: $code $(cat err)"; rm -f "$4"
}
frames() { ffmpeg -v error -nostdin -i "$1" -map 0:v:0 -fps_mode passthrough ${2:+-pix_fmt $2} -f framemd5 - | grep -v '^#' | awk -F, '{ print $NF }'; }
same() { frames "$1" "${3:-}" >want; frames "$2" "${3:-}" >got; if ! [ -s want ] || ! cmp -s want got; then bad "$1 to $2: other frames"; fi; }
probe() { ffprobe -v error -select_streams "${3:-v:0}" -show_entries "$2" -of csv=p=0 "$1"; }
times() { probe "$1" packet=pts_time,flags "${2:-v:0}" | awk -F, '$2 !~ /D/ { print $1 }' | sort -n; } # not of what its list of edits leaves out
steps() { times "$1" "$2" | awk -v least="$3" -v most="$4" 'NR > 1 && ($1 - last < least || $1 - last > most) { exit found = 1 } { last = $1 } END { exit found || !NR }'; } # FILE STREAM LEAST MOST: seconds

# a stream that begins behind what was looked at first: not copied, and no memory of others is taken for where it goes
make -f lavfi -i testsrc2=s=160x120:r=25:d=14,noise=alls=20:allf=t -f lavfi -i sine=d=14 -itsoffset 8 -f lavfi -i sine=d=1 -map 0 -map 1 -map 2 -c:v mpeg2video -q:v 4 -c:a mp2 -f vob late.vob
copy late.vob late.mkv; says 'stream 2 begins too late to be copied'
[ "$(ffprobe -v error -show_entries stream=codec_type -of csv=p=0 late.mkv | tr '\n' ' ')" = "video audio " ] || bad "late.mkv has other streams"

# one stream pauses while the other goes on: no join
make -f lavfi -i testsrc2=s=64x48:r=1/70:d=210 -f lavfi -i sine=d=210 -vf "fps=25,select='not(mod(n\,1750))'" -fps_mode vfr -c:v mpeg2video -g 1 -c:a mp2 -b:a 32k slides.ts
copy slides.ts slides.mkv; steps slides.mkv v:0 69.9 70.1 || bad "slides.mkv: $(times slides.mkv | tr '\n' ' ')"; silent "slides"

# files that were joined: time goes on, of frames and of sound
make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -f lavfi -i sine=d=2 -c:v mpeg2video -q:v 2 -g 5 -c:a mp2 -f vob part.vob
cat part.vob part.vob part.vob >joined.vob
copy joined.vob joined.mkv; says 'time stamps begin anew'
[ "$(times joined.mkv | wc -l)" = 150 ] && steps joined.mkv v:0 0.03 0.1 && steps joined.mkv a:0 0.01 0.1 || bad "joined: $(times joined.mkv | tail -1) s"
copy part.vob part.mkv; silent "a part that was not joined"
"$snls" denoise joined.vob joined.npy --sigma 0 --progress told >log 2>err; awk -F= '/^frame=/ { n = $2 } /^total_frames=/ && $2 < n { exit bad = 1 } END { exit bad || !n }' told || bad "more frames than all: $(cat told)"
if ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libtheora; then # whose headers come again
    make -f lavfi -i testsrc2=s=64x48:r=25:d=1 -f lavfi -i sine=d=1 -c:v libtheora -q:v 9 -c:a libvorbis part.ogv; cat part.ogv part.ogv part.ogv >joined.ogv; copy part.ogv part.mkv; silent "Theora"
    copy joined.ogv joined.mkv; says 'time stamps begin anew'; [ "$(times joined.mkv | wc -l)" = $((3 * $(times part.mkv | wc -l))) ] && steps joined.mkv v:0 0.03 0.3 || bad "Theora thrice: $(times joined.mkv | tr '\n' ' ')"
fi
make -i part.vob -c copy part.ts; make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -f lavfi -i sine=d=2 -c:v libx264 -preset ultrafast -bf 2 -c:a aac parth.ts
for part in part parth; do
    cat $part.ts $part.ts >joined.ts; copy joined.ts joined.mkv; says 'time stamps begin anew'
    [ "$(times joined.mkv | wc -l)" = 100 ] && steps joined.mkv v:0 0.03 0.15 && steps joined.mkv a:0 0.01 0.1 || bad "$part.ts twice: $(times joined.mkv | tail -1) s"
done
make -i part.ts -c copy -output_ts_offset 1000 far.ts; cat part.ts far.ts part.ts >joined.ts; copy joined.ts joined.mkv # far ahead, and back
[ "$(times joined.mkv | wc -l)" = 150 ] && steps joined.mkv v:0 0.03 0.15 && steps joined.mkv a:0 0.01 0.1 || bad "far ahead and back: $(times joined.mkv | tail -1) s"
make -i part.vob -an -c:v mpeg2video -g 1 -q:v 2 frames.ts; set -- $(probe frames.ts packet=pos | grep -o "[0-9]*" | sed -n 20,21p) # a frame is missing, but time goes on
(head -c $1 frames.ts; tail -c +$(($2 + 1)) frames.ts) >lossy.ts; refused 3 'is cut off or damaged' lossy.ts no.mkv; copy lossy.ts lossy.mkv --lenient; copy frames.ts frames.mkv

# sound whose time stamps repeat
make -f lavfi -i testsrc2=s=64x48:r=25:d=1 -f lavfi -i sine=d=1 -c:v ffv1 -c:a aac sound.mkv
make -i sound.mkv -c copy -bsf:a "setts=ts='if(eq(N,20),PREV_OUTPTS,TS)'" repeats.mkv
copy repeats.mkv out.mp4; says 'stream 1: time stamps that do not increase are moved'
[ "$(times out.mp4 a:0 | sort -u | wc -l)" = "$(times sound.mkv a:0 | wc -l)" ] || bad "sound that repeats: $(times out.mp4 a:0 | sort -u | wc -l) packets"
copy repeats.mkv out.mkv; silent "sound that repeats, into a container that takes it"
copy sound.mkv out.mp4; silent "sound in order"

# a second video whose pictures are decoded in another order than shown: Matroska tells no time of decoding for the first of them
make -f lavfi -i testsrc2=s=64x48:r=25:d=1 -f lavfi -i testsrc=s=64x48:r=25:d=1 -map 0 -map 1 -c:v libx264 -x264-params b-adapt=0:bframes=3:b-pyramid=strict angles.mkv
for out in angles.mp4 angles2.mkv; do copy angles.mkv $out; silent "$out"; [ "$(times angles.mkv v:1)" = "$(times $out v:1)" ] && [ "$(times $out | head -1)" = 0.000000 ] || bad "$out: other times of its second video: $(times $out v:1 | tr '\n' ' ')"; done

# a second video in the form of another container: AVI has start codes in H.264 and asks for them, transport streams what a decoder of MPEG-4 begins with
second() { [ "$(frames_of two.mkv 1)" = "$(frames_of "$1" 1)" ] || bad "$1: another second video: $(frames_of "$1" 1 | wc -l) frames"; }
frames_of() { ffmpeg -v error -nostdin -i "$1" -map 0:v:$2 -fps_mode passthrough -f framemd5 - | grep -v '^#' | awk -F, '{ print $NF }'; }
for codec in "libx264 -bf 2" "libx264 -bf 0" libx265 mpeg4 mpeg2video; do
    [ "$codec" != libx265 ] || ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libx265 || continue
    make -f lavfi -i testsrc2=s=64x48:r=25:d=1 -f lavfi -i testsrc=s=64x48:r=25:d=1 -map 0 -map 1 -pix_fmt yuv420p -c:v ffv1 -c:v:1 $codec $([ "$codec" != libx265 ] || echo -x265-params log-level=none) two.mkv
    copy two.mkv two.ts; silent "$codec in .ts"; second two.ts
    copy two.mkv two.avi; if [ "$codec" = libx265 ]; then says 'stream 1 (video, hevc) is left out: avi cannot hold it'; else silent "$codec in .avi"; second two.avi; fi
done
copy two.mkv two.vob; silent "MPEG-2 in .vob"; second two.vob; copy two.mkv two.mpg; silent "MPEG-2 in .mpg"; second two.mpg
# a packet that the container does not take, after it has waited for others: told is how to go on without such streams
if command -v python3 >/dev/null; then
    make -f lavfi -i testsrc2=s=64x48:r=25:d=1 -f lavfi -i sine=d=1 -c:v mpeg4 -c:a aac headless.avi
    python3 - <<'END'
data = bytearray(open("headless.avi", "rb").read())
at = data.index(b"strf", data.index(b"auds")) + 8 + 16  # AAC without what its decoder begins with
data[at:at + 2] = b"\0\0"
open("headless.avi", "wb").write(data)
END
    refused 4 '--no-copy leaves those out' headless.avi headless.mkv; copy headless.avi headless.mkv --no-copy; silent "--no-copy"
fi

# closed captions lie beside the samples of frames: kept where the encoder has a place for them, else named
if command -v python3 >/dev/null; then
    make -f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -c:v mpeg2video -bf 0 -q:v 2 -f mpeg2video bare.m2v
    python3 - <<'END'
data, words = open("bare.m2v", "rb").read(), b"\0\0\1\xb2GA94\3\x41\xff\xfc\x94\x2c\xff"  # before the first slice of each frame
open("said.m2v", "wb").write(data.replace(b"\0\0\1\1", words + b"\0\0\1\1"))
END
    captions() { ffprobe -v error -show_entries frame=side_data_list -show_frames "$1" | grep -c 'Closed Captions'; }
    for out in said.mp4 said.ts; do copy said.m2v $out; silent "$out"; [ "$(captions $out)" = 10 ] || bad "captions in $out: $(captions $out)"; done
    for out in said.mkv said.webm said.y4m; do copy said.m2v $out; says 'closed captions are left out'; [ "$(wc -l <err)" = 1 ] || bad "$out: $(cat err)"; copy said.m2v $out --no-copy; silent "$out"; done
fi

# a clock whose beginning the file does not tell, of one packet or of none with a time: it begins with the first frame
make -f lavfi -i testsrc2=s=64x48:r=25 -frames:v 1 single.ts; make -f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -c:v mpeg2video -bf 2 untimed.m2v
for clip in single.ts untimed.m2v; do for out in mkv mp4; do copy $clip begin.$out; silent "$clip"; [ "$(times begin.$out | grep . | head -1)" = 0.000000 ] || bad "$clip: .$out begins at $(times begin.$out | head -1) s"; done; done
# a clip that was cut without encoding: its list of edits hides the frames and the sound before the cut, which other containers would show
make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -f lavfi -i sine=d=2:r=48000 -c:v libx264 -preset ultrafast -g 50 -c:a aac uncut.mp4; make -ss 1 -i uncut.mp4 -c copy trimmed.mp4
for out in mkv avi ts; do copy trimmed.mp4 trimmed2.$out; first=$(times trimmed2.$out | grep . | head -1); sound=$(times trimmed2.$out a:0 | grep . | head -1); awk "BEGIN { exit !($first - $sound < 0.045 && $sound - $first < 0.045) }" || bad "trimmed .$out: frames from $first s, sound from $sound s"; done
copy trimmed.mp4 trimmed2.mp4; [ "$(times trimmed.mp4 a:0)" = "$(times trimmed2.mp4 a:0)" ] || bad "trimmed .mp4: other times of its sound"

# damage: one byte of a check sum's slice; at the very end, where decoders of many threads hold frames back; between packets, where demuxers look for
# the next, with loss of those between
flip() { # IN OUT AT: one byte becomes another
    cp "$1" "$2"; head -c $(($3 + 1)) "$1" | tail -c 1 | tr '\000-\377' '\200-\377\000-\177' | dd of="$2" bs=1 seek=$3 conv=notrunc 2>/dev/null
}
zeros() { cp "$1" "$2"; dd if=/dev/zero of="$2" bs=1 seek=$3 count=$4 conv=notrunc 2>/dev/null; } # IN OUT AT COUNT
size_of() { wc -c <"$1"; }
make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -c:v ffv1 -level 3 -slicecrc 1 sums.mkv; make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -c:v ffv1 -level 3 -slicecrc 0 nosums.mkv
make -i sums.mkv -c:v png png.mkv
copy sums.mkv ours.mkv; copy ours.mkv again.mkv; silent "a whole FFV1 file"; copy nosums.mkv again.mkv; silent "FFV1 without check sums"; copy png.mkv again.mkv; silent "a whole PNG file"
for part in 3 5 7 9; do # tenths of the file
    flip ours.mkv flipped.mkv $(($(size_of ours.mkv) * part / 10)); refused 3 'a check sum is wrong' flipped.mkv no.mkv
done
copy flipped.mkv out.mkv --lenient
for packet in $(probe png.mkv packet=pos | tail -4); do flip png.mkv flipped.mkv $((packet + 300)); refused 3 'decoding fails' flipped.mkv no.mkv; done
make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -f lavfi -i sine=d=4 -c:v mpeg4 -g 1 -c:a pcm_s16le whole.mkv; make -i whole.mkv -c copy whole.avi
for kind in mkv avi; do
    packet=$(probe whole.$kind packet=pos | sed -n 25p)
    zeros whole.$kind hole.$kind $((packet - 8)) 40; refused 3 'frames are missing where its parts do not follow each other' hole.$kind no.mkv; copy hole.$kind out.mkv --lenient
    copy whole.$kind out.mkv; silent "a whole .$kind"
done
# whole ones in which frames seem to be missing: sound that is longer, frames left out, a late beginning, a part copied by ffmpeg, no lengths told
make -i whole.mkv -vf "select='lt(mod(n,20),12)'" -fps_mode vfr -c:v mpeg4 -g 1 gaps.mkv; make -itsoffset 1 -i whole.mkv -c copy late2.mkv; make -ss 0.7 -i whole.mkv -t 0.9 -c copy piece.mkv
make -i whole.mkv -c copy -live 1 -f matroska live.mkv; make -i gaps.mkv -c copy gaps.avi; ffmpeg -v error -nostdin -i gaps.mkv -c copy -f matroska - | cat >gaps_piped.mkv
ffmpeg -v error -nostdin -i gaps.mkv -c copy -f avi - | cat >gaps_piped.avi
# packets of an odd length without the byte that should follow, as some programs write them
if command -v python3 >/dev/null; then
    make -i gaps.mkv -an -c copy gaps_seen.avi
    python3 - <<'END'
data = open("gaps_seen.avi", "rb").read()
movi = data.index(b"movi") + 4
end, at, out = movi - 8 + 4 + int.from_bytes(data[movi - 8:movi - 4], "little"), movi, b""
while at < end:
    length = int.from_bytes(data[at + 4:at + 8], "little")
    out += data[at:at + 8 + length]
    at += 8 + length + length % 2
assert len(out) < end - movi
head = data[:movi - 8] + (len(out) + 4).to_bytes(4, "little") + b"movi"
open("gaps_bare.avi", "wb").write(head[:4] + (len(head) + len(out) - 8).to_bytes(4, "little") + head[8:] + out)
END
fi
for clip in gaps.mkv late2.mkv piece.mkv live.mkv gaps.avi gaps_piped.mkv gaps_piped.avi $(ls gaps_bare.avi 2>/dev/null); do copy $clip out.mkv; done

# colour tags: kept, or named; full range that cannot be marked becomes limited, so that the picture is the same
make -f lavfi -i testsrc2=s=96x64:r=25:d=0.2 -vf scale=out_range=full -pix_fmt yuv420p -c:v libx264 -preset ultrafast -qp 0 -color_range pc -colorspace smpte170m full.mp4
for out in avi nut mpg; do
    copy full.mp4 full.$out; says "full range becomes limited range: .* cannot mark it"; says 'not marked in the output: matrix smpte170m;'
    "$snls" metrics full.mp4 full.$out --json >said 2>&1; psnr=$(tr -d '\n' <said | sed 's/.*"psnr": {[^}]*"mean": \([0-9.]*\).*/\1/')
    awk "BEGIN { exit !(${psnr:-0} > 38) }" || bad "full range in .$out: $psnr dB" # 33 dB and less with the other range
done
copy full.mp4 full.y4m; says 'not marked in the output: matrix smpte170m; y4m has no place'; ! grep -q 'full range' err || bad "y4m marks its range"; same full.mp4 full.y4m yuvj420p
for out in full2.mp4 full.mkv full.mov full.ts full.webm; do copy full.mp4 $out; silent $out; [ "$(probe $out stream=color_range,color_space | head -1)" = "pc,smpte170m" ] || bad "$out: tags $(probe $out stream=color_range,color_space)"; done
if ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libx265; then
    make -f lavfi -i testsrc2=s=96x64:r=25:d=0.2 -c:v libx265 -preset ultrafast -x265-params "log-level=none:master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):max-cll=1000,400" -pix_fmt yuv420p10le -vf setparams=colorspace=bt2020nc:color_primaries=bt2020:color_trc=smpte2084 -colorspace bt2020nc -color_primaries bt2020 -color_trc smpte2084 hdr.mp4
    copy hdr.mp4 hdr.avi; says 'matrix bt2020nc, primaries bt2020, transfer smpte2084, HDR mastering data; avi has no place for it, .mkv does'
    copy hdr.mp4 hdr.ts; says 'not marked in the output: HDR mastering data; mpegts'
    copy hdr.mp4 hdr.mkv; silent "HDR in .mkv"
fi

# how two views lie in one picture: kept where there is a place, of some values; else named
stereo() { ffprobe -v error -select_streams v:0 -show_entries stream_side_data=type,inverted -of csv=p=0 "$1"; }
marked() { ffprobe -v error -read_intervals '%+#1' -select_streams v:0 -show_entries frame_side_data=side_data_type -of csv=p=0 "$1" | grep -q 'Stereo 3D'; }
for mode in left_right bottom_top row_interleaved_lr; do
    make -f lavfi -i testsrc2=s=64x48:r=25:d=0.2 -c:v libx264 -preset ultrafast -metadata:s:v stereo_mode=$mode stereo.mkv
    for out in mkv webm mp4 mov avi ts y4m; do
        rm -f stereo2.*; copy stereo.mkv stereo2.$out
        case $mode.$out in
        *.mkv | left_right.webm | left_right.mp4 | bottom_top.webm) silent "$mode in .$out"; [ "$(stereo stereo.mkv)" = "$(stereo stereo2.$out)" ] || bad "$mode in .$out: $(stereo stereo2.$out)" ;;
        bottom_top.*) says "the stereo mode, $mode, is not marked in the output: "; [ "$(wc -l <err)" = 1 ] || bad ".$out: $(cat err)" ;;
        *.mp4 | *.mov | *.ts) marked stereo2.$out && silent "$mode in H.264 in .$out" || says "the stereo mode, $mode, is not marked in the output: " ;; # since FFmpeg 7 frames know it, and x264 takes it from them
        *) says "the stereo mode, $mode, is not marked in the output: "; [ "$(wc -l <err)" = 1 ] || bad ".$out: $(cat err)" ;;
        esac
    done
    "$snls" denoise stereo.mkv stereo2.npy --sigma 0 -y >log 2>err; says "the stereo mode, $mode, is not marked"
done
# 360 degree video: ffmpeg has no option that makes one, so the box of Google's first version is put behind the track's others
if command -v python3 >/dev/null; then
make -f lavfi -i testsrc2=s=64x32:r=25:d=0.2 -c:v libx264 -preset ultrafast plain.mp4
python3 - <<'PY' || bad "no 360 degree video"
import struct
xml = b'<?xml version="1.0"?><rdf:SphericalVideo><GSpherical:Spherical>true</GSpherical:Spherical><GSpherical:Stitched>true</GSpherical:Stitched><GSpherical:StitchingSoftware>none</GSpherical:StitchingSoftware><GSpherical:ProjectionType>equirectangular</GSpherical:ProjectionType></rdf:SphericalVideo>'
box = struct.pack(">I4s", 24 + len(xml), b"uuid") + bytes.fromhex("ffcc8263f8554a938814587a02521fdd") + xml
data = open("plain.mp4", "rb").read()
moov = data.index(b"moov") - 4; trak = data.index(b"trak") - 4; end = trak + struct.unpack_from(">I", data, trak)[0]
assert moov > data.index(b"mdat") # no place of a sample moves
data = bytearray(data[:end] + box + data[end:])
for at in moov, trak: struct.pack_into(">I", data, at, struct.unpack_from(">I", data, at)[0] + len(box))
open("world.mp4", "wb").write(data)
PY
world() { ffprobe -v error -select_streams v:0 -show_entries stream_side_data=projection -of csv=p=0 "$1"; }
[ "$(world world.mp4)" = equirectangular ] || bad "ffmpeg sees no 360 degree video: $(world world.mp4)"
for out in mkv mp4 webm mov avi ts y4m nut; do
    ffmpeg -v error -encoders | grep -q libvpx || [ $out != webm ] || continue
    copy world.mp4 world2.$out
    case $out in mkv | mp4 | webm) silent "360 degrees in .$out"; [ "$(world world2.$out)" = equirectangular ] || bad "360 degrees are lost in .$out" ;;
    *) says "the projection of 360 degree video, equirectangular, is not marked in the output: "; [ "$(wc -l <err)" = 1 ] || bad "360 degrees in .$out: $(cat err)" ;; esac
done
"$snls" denoise world.mp4 world2.npy --sigma 0 -y >log 2>err; says 'the projection of 360 degree video'
fi
make -f lavfi -i testsrc2=s=64x48:r=25:d=0.2 -c:v libx264 -x264-params frame-packing=4 stereo.mp4 # H.264 has it in its frames
for out in mkv mp4 mov ts; do copy stereo.mp4 stereo2.$out; silent "H.264's own stereo mode in .$out"; done; [ -n "$(stereo stereo2.mkv)" ] || bad "H.264's own stereo mode is lost in .mkv"
copy stereo.mp4 stereo2.avi; says 'the stereo mode, top and bottom, is not marked in the output: avi'

# a rate that varies: kept to 1/60000 s by encoders that take no finer clock; rounded or lost where that is said; a single gap is found when it comes
make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -vf "settb=1/1000,select='not(mod(n,3))+eq(n,4)',setpts=PTS+mod(N*7\,5)*0.003/TB" -fps_mode vfr -enc_time_base 1/1000 -video_track_timescale 90000 -c:v libx264 -preset ultrafast vary.mp4
near() { paste <(times "$1") <(times "$2") | awk -v most="$3" '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) far = 1 } END { exit far || !NR }'; } # A B SECONDS
copy vary.mp4 vary.mkv '--vcodec mpeg4'; silent "mpeg4 of a varying rate"; near vary.mp4 vary.mkv 0.0011 || bad "mpeg4: other times: $(paste <(times vary.mp4) <(times vary.mkv))"
copy vary.mp4 vary2.mkv '--vcodec mpeg2video'; says 'the frame rate varies, and mpeg2video knows .* frames a second: times are rounded to that'
copy vary.mp4 vary.y4m; says 'frame rate varies, and y4m has one rate only'
make -f lavfi -i testsrc2=s=32x32:r=25:d=12 -vf "setpts=PTS+gte(N\,150)*0.08/TB" -fps_mode vfr -c:v libx264 -preset ultrafast gap.mp4
for out in gap.y4m gap.m2v gap.mxf; do copy gap.mp4 $out; says 'frame rate varies, and .* has one rate only: 25.000'; [ "$(wc -l <err)" = 1 ] || bad "$out: $(cat err)"; done
copy gap.mp4 gap.avi; silent "a gap in .avi"; near gap.mp4 gap.avi 0.001 || bad "a gap in .avi: other times"
make -f lavfi -i testsrc2=s=32x32:r=24000/1001:d=12 -c:v ffv1 even.mkv; copy even.mkv even.y4m; silent "an even rate"

# how long the last frame of an animation is to be seen
make -f lavfi -i testsrc2=s=64x48:r=10:d=0.5 -final_delay 300 last.gif; make -f lavfi -i testsrc2=s=64x48:r=10:d=0.5 -f apng -final_delay 3 last.apng
ends() { ffprobe -v error -select_streams v:0 -show_entries packet=pts_time,duration_time -of csv=p=0 "$1" | tail -1; }
for clip in last.gif last.apng; do for out in gif apng; do copy $clip last2.$out; [ "$(ends last2.$out | cut -d, -f2)" = 3.000000 ] || bad "$clip to .$out: the last frame is $(ends last2.$out)"; done; done

# transparency of WebM, which is a second picture beside each
if ffmpeg -hide_banner -decoders 2>/dev/null | grep -q libvpx-vp9; then
    make -f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -vf "format=yuva420p,geq=lum='lum(X,Y)':cb='cb(X,Y)':cr='cr(X,Y)':a='4*X'" -c:v libvpx-vp9 -deadline realtime clear.webm
    alpha() { ffmpeg -v error -nostdin ${2:+-c:v $2} -i "$1" -map 0:v -fps_mode passthrough -pix_fmt yuva420p -f framemd5 - | grep -v '^#' | awk -F, '{ print $NF }'; }
    for out in clear.mkv clear2.webm; do
        copy clear.webm $out; [ "$(alpha clear.webm libvpx-vp9 | wc -l)" = 10 ] && [ "$(alpha clear.webm libvpx-vp9)" = "$(alpha $out "$([ $out = clear.mkv ] || echo libvpx-vp9)")" ] || bad "$out: other frames or transparency"
    done
    copy clear.webm clear264.mkv '--vcodec libx264'; says 'transparency is left out'; [ -z "$(probe clear264.mkv stream_tags=alpha_mode)" ] || bad "alpha_mode of a file without"
fi

# a part of a clip: chapters and subtitles end with it, a subtitle that is to be seen at its beginning stays, the time code is its first frame's
printf '1\n00:00:00,100 --> 00:00:01,300\none\n\n2\n00:00:01,600 --> 00:00:02,900\ntwo\n\n3\n00:00:02,700 --> 00:00:02,800\nthree\n\n' >cues.srt
printf ';FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1500\ntitle=One\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=1500\nEND=2500\ntitle=Two\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=2500\nEND=3000\ntitle=Three\n' >chapters
make -f lavfi -i testsrc2=s=64x48:r=25:d=3 -i cues.srt -i chapters -map 0 -map 1 -map_chapters 2 -c:v ffv1 -c:s srt cues.mkv
copy cues.mkv cues2.mkv '--first 25 --frames 25'; silent "a part of a clip"
[ "$(ffprobe -v error -show_entries chapter=start_time,end_time -of csv=p=0 cues2.mkv | tr '\n' ' ')" = "0.000000,0.500000 0.500000,1.000000 " ] || bad "chapters of a part: $(ffprobe -v error -show_entries chapter=start_time,end_time -of csv=p=0 cues2.mkv)"
[ "$(probe cues2.mkv packet=pts_time,duration_time s:0 | tr '\n' ' ')" = "0.000000,0.300000 0.600000,0.400000 " ] || bad "subtitles of a part: $(probe cues2.mkv packet=pts_time,duration_time s:0)"
copy cues.mkv cues2.mkv; [ "$(probe cues.mkv packet=pts_time,duration_time s:0)" = "$(probe cues2.mkv packet=pts_time,duration_time s:0)" ] || bad "subtitles of a whole clip"
make -f lavfi -i testsrc2=s=64x48:r=30000/1001:d=1 -c:v libx264 -preset ultrafast -timecode '00:00:59;25' code.mov
copy code.mov code2.mov '--first 10'; [ "$(probe code2.mov stream_tags=timecode | head -1)" = '00:01:00;07' ] || bad "time code $(probe code2.mov stream_tags=timecode)"
copy code.mov code2.mov; [ "$(probe code2.mov stream_tags=timecode | head -1)" = '00:00:59;25' ] || bad "time code of a whole clip: $(probe code2.mov stream_tags=timecode)"

# that frames are whole ones, and marks of streams: kept where there is a place, else the latter are named
make -i cues.mkv -map 0 -c copy -disposition:s:0 forced+hearing_impaired marked.mkv; copy marked.mkv marked2.mkv; silent "marks in .mkv"
[ "$(probe marked.mkv stream=field_order)" = progressive ] && [ "$(probe marked2.mkv stream=field_order)" = progressive ] || bad "whole frames are not marked: $(probe marked2.mkv stream=field_order)"
[ "$(probe marked2.mkv stream_disposition=forced,hearing_impaired s:0)" = 1,1 ] || bad "marks in .mkv: $(probe marked2.mkv stream_disposition=forced,hearing_impaired s:0)"
make -i marked.mkv -map 0 -c:v libx264 -c:s mov_text -disposition:s:0 forced+hearing_impaired marked.mp4; copy marked.mp4 marked2.mp4; silent "marks in .mp4"
[ "$(probe marked2.mp4 stream_disposition=forced,hearing_impaired s:0)" = 1,1 ] || bad "marks in .mp4: $(probe marked2.mp4 stream_disposition=forced,hearing_impaired s:0)"
copy marked.mp4 marked.mov; says 'not kept: mark "forced" of stream 1, mark "hearing impaired" of stream 1; mov has no place for it, .mkv does'

# streams that a muxer lists but refuses, or of which nothing is known yet: left out, and the rest is written
sounds() { ffprobe -v error -show_entries stream=codec_type -of csv=p=0 "$1" | grep -c audio; } # later muxers hold more
for case in "libopus mov" "flac mov" "pcm_s16le flv" "ac3 flv"; do
    set -- $case; make -f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -f lavfi -i sine=d=0.4:r=48000 -c:v ffv1 -c:a $1 -strict -2 heard.mkv
    copy heard.mkv heard.$2; [ "$(sounds heard.$2)" = 1 ] && silent "$1 in .$2" || says "stream 1 (audio, .*) is left out: $2 cannot hold it"
done
make -f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -f lavfi -i sine=d=0.4:r=48000 -map 0 -map 1 -map 1 -c:v ffv1 -c:a aac heard.mkv; copy heard.mkv heard.flv; [ "$(sounds heard.flv)" = 2 ] && silent "two sounds in .flv" || says 'stream 2 (audio, aac) is left out: flv cannot hold it' # the second
make -f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -f lavfi -i sine=d=0.4:r=48000 -c:v ffv1 -c:a aac heard.mkv; for out in mov flv mp4 ts avi mkv; do copy heard.mkv heard2.$out; silent "AAC in .$out"; done
make -f lavfi -i testsrc2=s=64x48:r=25:d=14 -f lavfi -i sine=d=14:r=48000 -itsoffset 10 -f lavfi -i sine=d=2:r=48000 -map 0 -map 1 -map 2 -c:v mpeg2video -c:a mp2 -b:a 64k -f vob unknown.vob
copy unknown.vob unknown.mkv; says 'stream 2 (audio, mp2) is left out: nothing is known of it so far'
# dozens of streams that the container cannot hold: one sentence, which leaves room for what is found later
many=""; for i in $(seq 24); do many="$many -map 1"; done
make -i gap.mp4 -i cues.srt -map 0 $many -c copy -c:s srt many.mkv; copy many.mkv many.y4m
says 'streams 1 (subtitle, subrip), 2 (subtitle, subrip), .* and [0-9]* more are left out: '; says 'frame rate varies, and y4m has one rate only: '; [ "$(wc -l <err)" = 2 ] || bad "24 subtitles: $(cat err)"
# a cover picture: a file in Matroska, a stream in MP4
make -f lavfi -i testsrc=s=32x32 -frames:v 1 cover.png; make -i heard.mkv -i cover.png -map 0 -map 1 -c copy -c:v:0 libx264 -disposition:v:1 attached_pic covered.mp4
for out in covered.mkv covered2.mp4; do
    copy covered.mp4 $out; silent "a cover in $out"; ffmpeg -v error -nostdin -y -i $out -map 0:v -map -0:v:0 -c copy -f image2 -update 1 got.png; cmp -s cover.png got.png || bad "$out: another cover picture"
done
copy covered.mkv covered2.mkv; silent "a cover from .mkv"; for out in avi mov; do copy covered.mp4 covered.$out; says "stream 2 (video, png) is left out: $out cannot hold it"; done

# a clip whose pixel format changes in the middle has one in the output, which is said; encoders do not talk
for format in yuv420p yuv444p; do make -f lavfi -i testsrc2=s=64x64:r=25:d=0.4 -pix_fmt $format -c:v libx264 -preset ultrafast $format.h264; done
cat yuv420p.h264 yuv444p.h264 >mixed.h264; copy mixed.h264 mixed.mkv; says 'from frame 10 on it is yuv444p, before yuv420p'; ! grep -q lossless log && [ "$(frames mixed.mkv | wc -l)" = 20 ] || bad "mixed formats: $(frames mixed.mkv | wc -l) frames"
if ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libsvtav1; then copy yuv420p.h264 av1.mkv '--vcodec libsvtav1'; silent "libsvtav1"; fi

[ $failed = 0 ] && echo "test_video_streams: ok"
exit $((failed > 0))
