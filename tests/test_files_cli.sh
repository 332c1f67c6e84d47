#!/usr/bin/env bash
# test_files_cli.sh BUILD SOURCE: which files commands on clips write, by the name of OUT, and that none of them is what they read.
. "$2/tests/cli.sh"
has png || skip "this build has no PNG"
build=$1 # the arguments are put to other use below
expect() # CODE WORDS COMMAND ARGUMENTS...: its exit code, and one line that says so
{
    local want=$1 words=$2
    shift 2
    "$snls" "$@" >out.log 2>err.log
    local code=$?
    [ $code = "$want" ] || bad "$*: exit $code, expected $want: $(cat err.log)"
    [ "$(wc -l <err.log)" = 1 ] && grep -q -- "$words" err.log || bad "$*: says: $(cat err.log)"
}
runs() { "$snls" "$@" >out.log 2>err.log || bad "$*: $(cat err.log)"; }

runs synth clip.npy --frames 3 --height 24 --width 32
runs synth in/ --frames 3 --height 24 --width 32
cp -r in kept; cp clip.npy kept.npy
runs flow clip.npy flow.npy --method dis; cp flow.npy kept_flow.npy

# whatever is read stays, -y or not: a file, a folder, a pattern, under any name that leads there
input='is an input, and the output'
for command in "noise --sigma 5" "align --flow dis" "denoise --sigma 5 --method nlm --preset fast"; do
    set -- $command
    name=$1; shift
    expect 2 "$input" "$name" clip.npy clip.npy -y "$@"
    expect 2 "$input" "$name" in in -y "$@"
    expect 2 "$input" "$name" in/ ./in/../in/%05d.png -y "$@"
    expect 2 "$input" "$name" in/%05d.png in -y "$@"
    expect 2 "$input" "$name" in/%05d.png in/%05d.png -y "$@"
done
expect 2 "$input" flow clip.npy clip.npy -y
expect 2 "$input" flow in in/%05d.png -y
expect 2 "$input" flow clip.npy flow.npy -y --truth flow.npy
expect 2 "$input" align clip.npy flow.npy -y --flow flow.npy
diff -r in kept && cmp clip.npy kept.npy && cmp flow.npy kept_flow.npy || bad "an input was overwritten"

# a name that is empty, wherever it stands
for option in -i -o; do expect 2 "^snls denoise: $option is empty$" denoise in $option ''; done
expect 2 '^snls denoise: IN is empty$' denoise '' other.npy
expect 2 '^snls flow: --truth is empty$' flow clip.npy other.npy --truth=

# an array is no .flo and no picture, and does not get the name of one
for out in b.flo b.PNG; do
    expect 2 "$out: arrays are written as .npy" flow clip.npy other.npy --out-backward $out
    expect 2 "$out: arrays are written as .npy" synth other.npy --out-fflow $out
    expect 2 "$out: arrays are written as .npy" compose flow.npy flow.npy --wt 1 --out $out
done
[ ! -e other.npy ] || bad "other.npy was written"

# other files beside them may be written, and written again
runs denoise in/%05d.png in/d%05d.png --sigma 5 --method nlm --preset fast
runs denoise in/%05d.png in/d%05d.png --sigma 5 --method nlm --preset fast -y
runs noise in in/noisy.npy --sigma 5
[ "$(ls in | tr '\n' ' ')" = "00000.png 00001.png 00002.png d00000.png d00001.png d00002.png noisy.npy " ] || bad "in holds: $(ls in)"

# a file that is no picture cannot be parsed (3), whatever its name
printf "no picture at all" >junk.png
expect 3 'neither PNG nor JPEG' denoise junk.png junk.npy

# a JPEG of four channels is none that could be read, and the line says which could: SOF0 of 8x8 pixels, and nothing behind it
printf '\xff\xd8\xff\xc0\x00\x14\x08\x00\x08\x00\x08\x04\x01\x11\x00\x02\x11\x00\x03\x11\x00\x04\x11\x00\xff\xda\x00\x0e\x04\x01\x00\x02\x00\x03\x00\x04\x00\x00\x3f\x00\xff\xd9' >four.jpg
! has jpeg || expect 4 'CMYK.*grey, YCbCr and RGB are accepted' denoise four.jpg four.npy

# pictures of several sizes are shapes that do not agree (3)
runs synth uneven/ --frames 2 --height 24 --width 32; runs synth small/ --frames 1 --height 24 --width 16; mv small/00000.png uneven/00002.png
for command in "denoise uneven x.npy --sigma 0" "denoise uneven/%05d.png x.npy --sigma 5 --preset fast" "flow uneven x.npy" "noise uneven x.npy --sigma 5" "metrics uneven uneven"; do
    expect 3 'uneven.*: frame 2 is 16 x 24 pixels of 3 channels, those before are 32 x 24 of 3' $command
done
[ ! -e x.npy ] || bad "uneven: x.npy was written"

# values whose squares would leave the floats: no result of them, but the file, the frame and the place
numpy() { printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1), }"; } # SHAPE: the header of a .npy file
{ numpy '3, 16, 16, 3'; head -c $((4 * (768 + 51))) /dev/zero; printf '\xf9\x02\x15\x50'; head -c $((4 * (2 * 768 - 52))) /dev/zero; } >huge.npy
for command in "denoise huge.npy x.npy --sigma 5" "denoise huge.npy x.npy --sigma 0"; do
    expect 3 'huge.npy: frame 1 holds 1e+10 at \[1,1,0\]' $command
done
has lapack && expect 3 'huge.npy: frame 1 holds 1e+10' denoise huge.npy x.npy --sigma 5 --method stan
for command in "flow huge.npy x.npy" "align huge.npy x.npy" "noise huge.npy x.npy --sigma 5" "metrics huge.npy huge.npy" "eval --data huge.npy --sigma 5" "train huge.npy x.safetensors --wt 1 --frames 3 --crop 16"; do
    expect 3 'huge.npy: element \[1,1,1,0\] is 1e+10' $command
done
{ numpy '20, 30'; head -c 2400 /dev/zero; } >flat.npy
for command in "denoise flat.npy x.npy" "noise flat.npy x.npy --sigma 5"; do expect 3 '\[T,H,W,C\], \[1,T,H,W,C\] or \[H,W,C\]' $command; done
[ ! -e x.npy ] || bad "huge or flat: x.npy was written"

# OUT is what its name says, or nothing is written
expect 2 'must be a .npy file' synth clip.mp4
expect 2 'ends in .png' synth clip%d.mp4
expect 2 'stay black' align clip.npy a.npy --stride0 3 --ps 3
ls clip.mp4 clip0.mp4 a.npy 2>/dev/null && bad "something was written"
runs noise clip.npy folder --sigma 5; [ "$(ls folder | wc -l)" = 3 ] || bad "a name without ending is a folder: $(ls -d folder*)"
runs noise in/00000.png one.png --sigma 5; [ -s one.png ] || bad "one picture"

# the folder of a pattern is made, as one that is OUT is, and goes again with a failure; one folder above it is not
for command in "noise clip.npy new/%d.png --sigma 5" "denoise clip.npy new/%d.png --sigma 0" "align clip.npy new/%d.png --flow none --ws 1" "flow clip.npy new/%d.flo --method dis" "synth new/%d.png --frames 3 --height 24 --width 32"; do
    runs $command; [ "$(ls new | wc -l)" -ge 2 ] || bad "$command: $(ls new)"; rm -rf new
    expect 7 'folder\|cannot be made' ${command/new/new/er}; [ ! -e new ] || bad "$command: left a folder above"
done
expect 7 'kept.npy: exists' flow clip.npy new/%d.flo --method dis --out-error kept.npy; [ ! -e new ] || bad "a failure left its new folder"
mkdir set0 set1 set2; runs denoise clip.npy set%d/a.png --sigma 0; [ -s set2/a.png ] && [ ! -e set%d ] || bad "numbered folders: $(ls -d set*)"; rm -r set?

# folders may be called as patterns are
cp -r kept d%05d; mkdir 100% out%05d.png
for out in d%05d/e/ d%05d/e 100%/%05d.png 100%/e/ n%d/; do
    for command in "noise clip.npy $out --sigma 5" "denoise clip.npy $out --sigma 0" "align clip.npy $out --flow none --ws 1"; do runs $command; [ -s "${out%/*}/00002.png" ] || [ -s "$out/00002.png" ] || bad "$command: $(find .)"; rm -rf d%05d/e 100%/* n%d; done
done
runs synth n%d/ --frames 3 --height 24 --width 32; cmp n%d/00002.png kept/00002.png || bad "synth into n%d/"; rm -r n%d
runs denoise clip.npy d%05d/x.npy --sigma 0; cmp d%05d/x.npy kept.npy >log || [ -s d%05d/x.npy ] || bad "a file in d%05d"
expect 7 "its folder is not there" denoise clip.npy shot%d/a%d.png --sigma 0
for in in d%05d d%05d/ d%05d/%05d.png; do runs metrics $in kept; expect 2 "$input" noise $in d%05d/%05d.png --sigma 5 -y; done; rm -r d%05d 100%
runs denoise clip.npy out%05d.png/ --sigma 0; [ -s out%05d.png/00002.png ] || bad "into out%05d.png/"
runs denoise clip.npy out%05d.png --sigma 0; [ -s out00002.png ] || bad "the pattern out%05d.png beside a folder of its name"; rm -r out*.png

# -y over an older result that was longer: what it leaves is told, up to the first gap
runs synth long/ --frames 6 --height 24 --width 32
for command in "noise clip.npy --sigma 5" "denoise clip.npy --sigma 0" "align clip.npy --flow dis" "synth --frames 3 --height 24 --width 32"; do
    for out in older older/%05d.png; do
        set -- $command $out
        cp -r long older; touch older/00007.png older/note.txt older/a00003.png
        runs "$@" -y
        [ "$(ls older | wc -l)" = 9 ] || bad "$*: an older result: $(ls older)"
        grep -q '3 files of an older, longer result are still there, from older/*00003.png on' err.log || bad "$*: says nothing of the older result: $(cat err.log)"
        rm -r older
    done
done
mkdir older; for i in 0 1 2 3 5; do : >older/$i.flo; done
runs flow clip.npy older/%d.flo --method dis -y; grep -q '2 files of an older, longer result are still there, from older/2.flo on' err.log || bad "flow: says nothing of the older result: $(cat err.log)"

# pipes and devices are written in place
runs synth two.npy --frames 2 --height 24 --width 32
"$snls" synth /dev/stdout --frames 2 --height 24 --width 32 2>err.log | cmp - two.npy || bad "/dev/stdout: $(cat err.log)"
runs synth >(cat >piped.npy) --frames 2 --height 24 --width 32
for _ in $(seq 100); do cmp -s piped.npy two.npy && break; sleep 0.02; done; cmp piped.npy two.npy || bad "an array into a pipe of the shell"
"$snls" synth /dev/stdout --frames 2 --json 2>err.log | cat >out.log; [ ! -s out.log ] && grep -q 'so is --json' err.log || bad "/dev/stdout beside --json: $(cat err.log)"
runs synth /dev/null --frames 2; [ -c /dev/null ] || bad "/dev/null was replaced"

# where what tells the result cannot be written, no result remains ...
for command in "flow clip.npy x.npy --method dis" "noise clip.npy x.npy --sigma 5 --json" "align clip.npy x.npy --flow dis" "synth x.npy --frames 2 --json" "search clip.npy clip.npy --out-dist x.npy --json"; do
    "$snls" $command >/dev/full 2>err.log; [ $? = 7 ] && grep -q 'No space left' err.log && [ ! -e x.npy ] || bad "$command to a full disk: $(cat err.log; ls x.npy)"
done
# ... but one that may have taken hours
for command in "denoise clip.npy x.npy --sigma 0" "denoise clip.npy x.npy --sigma 0 --json"; do
    "$snls" $command >/dev/full 2>err.log; [ $? = 7 ] && grep -q 'No space left on device; the outputs are complete' err.log && [ -s x.npy ] || bad "$command to a full disk: $(cat err.log; ls x.npy)"
    rm -f x.npy
done
# and it is there when that is told
mkfifo told; "$snls" denoise clip.npy x.npy --sigma 0 --json >told 2>err.log & run=$!
IFS= read -r -n 1 _ <told; [ -s x.npy ] || bad "the report comes before the result"; wait $run; rm -f x.npy told
"$snls" denoise clip.npy x.npy --sigma 5 --preset fast --method nlm --report /dev/full >out.log 2>err.log; [ $? = 7 ] && grep -q '/dev/full: cannot be written: No space' err.log || bad "a report that cannot be written: $(cat err.log)"
"$snls" eval --data clip.npy --sigma 5 --preset fast --method nlm >/dev/full 2>err.log; [ $? = 7 ] && grep -q 'No space left' err.log || bad "eval to a full disk: $(cat err.log)"

# "-" is standard output for clips, and no file
expect 2 'is standard output' search clip.npy clip.npy --out-dist -
expect 2 'is standard output' bench --quick --op weights --svg -
expect 2 'both standard input' metrics - -
expect 2 '^snls train: --log is -' train clip.npy x.safetensors --log -
ls ./- 2>/dev/null && bad "a file of the name - was made"

# numbers are decimal digits, without blanks
expect 2 ' --stride1 is 0x1' search clip.npy clip.npy --stride1 0x1 --out-dist x.npy
for mem in '2 ' '2@' G; do "$snls" denoise clip.npy x.npy --sigma 0 --mem "$mem" >out.log 2>err.log; [ $? = 2 ] && grep -q 'a size such as' err.log || bad "--mem '$mem' is taken: $(cat err.log)"; done
for frames in + -2 ++2 ' 2'; do "$snls" denoise clip.npy x.npy --sigma 0 --frames="$frames" >out.log 2>err.log; [ $? = 2 ] || bad "--frames '$frames' is taken"; done
runs denoise clip.npy x.npy --sigma 0 --first +1 --frames +2 --mem 2g --threads +1; grep -q '^2 frames' out.log || bad "numbers with a plus: $(cat out.log)"; rm -f x.npy
for sigma in ' 5' 0x5 inf; do "$snls" noise clip.npy x.npy --sigma "$sigma" >out.log 2>err.log; [ $? = 2 ] || bad "--sigma '$sigma' is taken"; done
for size in ' 1x16x16' '1x16x16 ' '1x 16x16' +1x16x16 1x16x+16 1x16 1x16x16x3 0x16x16 1x16x4294967312; do expect 2 '--time is .*, must be FRAMESxHEIGHTxWIDTH' model none.safetensors --time "$size"; done

# equal frames: the PSNR of every command is infinite
runs denoise in/00000.png still/%d.png --sigma 0; cp still/0.png still/1.png
runs flow still x.npy --method dis; grep -q 'inf dB as it is' out.log || bad "flow of equal frames: $(cat out.log)"; rm x.npy
"$snls" flow still x.npy --method dis --json | grep -q '"none": null' || bad "flow --json of equal frames"; rm x.npy
cp kept/00001.png still/2.png; "$snls" flow still x.npy --method dis --json >out.log; rm x.npy # of the pair that differs
"$snls" metrics still/1.png still/2.png --json | grep -o '"mean": [0-9.]\{6\}' | head -1 | sed 's/mean/none/' | grep -q -f - out.log || bad "one equal pair makes the mean infinite: $(cat out.log)"

# a clip that SSIM has no meaning on, one that cannot be read, names beyond ASCII
mkdir clips; cp clip.npy clips/one.npy; cp clip.npy clips/größer.npy; runs synth clips/tiny.npy --frames 2 --height 6 --width 6
runs eval --data clips// --sigma 5 --preset fast --method nlm --flow none
awk '$1 == "mean" { ok = $5 + 0 > 0.5 && $5 != "nan" } END { exit !ok }' out.log || bad "a small clip is the whole mean: $(cat out.log)"
[ "$(grep -v '^clip' out.log | while IFS= read -r line; do printf %s "${line%% 5 *}" | LC_ALL=C tr -d '\200-\277' | wc -c; done | sort -u | wc -l)" = 1 ] || bad "columns: $(cat out.log)"
: >clips/zz.npy; expect 3 'clips/zz.npy: is empty' eval --data clips// --sigma 5
[ "$(wc -l <out.log)" = 0 ] || bad "eval finds a bad clip at its turn only: $(cat out.log)"

# sentences that say what to do
expect 3 '^snls train: clips/größer.npy: [^t]' train clips/ x.safetensors --crop 64 --wt 1 --frames 3
network="--width 8 --blocks 1 --ws 3 --wt 1 --frames 3 --crop 16 --batch 1 --steps 1 --warmup 0"
expect 2 'x.safetensors: two outputs would be the same file' train clip.npy x.safetensors --checkpoint ./x.safetensors $network
expect 2 'x.safetensors: two outputs would be the same file' train clip.npy x.safetensors --log x.safetensors $network
"$snls" train clip.npy x.safetensors $network --log /dev/full >out.log 2>err.log; [ $? = 7 ] && grep -q '/dev/full: cannot be written: No space' err.log || bad "a log that cannot be written: $(cat err.log)"
"$snls" train clip.npy x.safetensors $network --json >/dev/full 2>err.log; [ $? = 7 ] && [ -s x.safetensors ] || bad "weights are gone where the report cannot be written: $(cat err.log)"; rm -f x.safetensors
expect 7 'x/y.npy: cannot be created: its folder is not there' noise clip.npy x/y.npy --sigma 5
expect 3 'takes many pictures' denoise 'in/*.png' x.npy
runs help help; grep -q '^Commands:' out.log || bad "snls help help: $(cat out.log)"

if [ -e "$build/libsnls_ffmpeg.so" ] && command -v ffmpeg >/dev/null && command -v ffprobe >/dev/null; then
    probe() { ffprobe -v error -count_frames -show_entries stream=codec_type,pix_fmt,r_frame_rate,nb_read_frames -of csv=p=0 "$1" | tr '\n' ' '; }
    ffmpeg -v error -f lavfi -i testsrc2=s=48x32:r=30:d=0.2 -f lavfi -i sine=d=0.2 -c:v ffv1 -pix_fmt yuv444p -c:a flac v.mkv
    runs synth size.npy --frames 3 --height 32 --width 48
    # floats beyond 0 to 1 are kept where they can be, else that is said
    mkdir exr; ffmpeg -v error -f rawvideo -pix_fmt gbrpf32le -s 16x16 -i <(head -c 3072 /dev/zero) -frames:v 1 exr/1.exr
    runs denoise exr exr.npy --sigma 0; grep -q 'outside 0 to 1 is cut' err.log || bad "floats of a folder: $(cat err.log)"
    runs denoise exr/1.exr exr.mkv --sigma 0; grep -q 'outside 0 to 1 is cut' err.log || bad "floats into 16 bits: $(cat err.log)"
    for _ in $(seq 768); do printf '\xf9\x02\x15\x50'; done >large.raw; ffmpeg -v error -f rawvideo -pix_fmt gbrpf32le -s 16x16 -i large.raw -frames:v 1 large.exr
    for command in "denoise large.exr x.npy --sigma 5" "noise large.exr x.npy --sigma 5"; do expect 3 'large.exr: frame 0 holds 2.55e+12' $command; done
    ffmpeg -v error -i v.mkv -frames:v 1 -pix_fmt rgba alpha.png
    runs denoise alpha.png opaque.png --sigma 0; grep -q 'transparency of PNG' err.log || bad "lost transparency is not mentioned: $(cat err.log)"
    runs noise v.mkv noisy.mkv --sigma 20; [ "$(probe noisy.mkv)" = "$(probe v.mkv)" ] || bad "noise into a video: $(probe noisy.mkv) instead of $(probe v.mkv)"
    "$snls" metrics v.mkv noisy.mkv --json | sed -nE 's/.*"psnr": \{"mean": ([0-9.]+).*/\1/p' | awk '{ ok = $1 > 22 && $1 < 24 } END { exit !ok }' || bad "noise of 20 in a video, clipped and rounded"
    runs align v.mkv aligned.mkv --flow dis; [ "$(probe aligned.mkv)" = "$(probe v.mkv)" ] || bad "align into a video: $(probe aligned.mkv)"
    "$snls" noise v.mkv - --sigma 5 2>err.log | ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of csv=p=0 - | grep -q '^6$' || bad "noise into a pipe: $(cat err.log)"
    expect 4 'tells no video format' noise v.mkv x.xyz --sigma 5
    # standard input comes once, and is enough; a pipe of a name, which may have sound, is not
    ffmpeg -v error -i v.mkv -f yuv4mpegpipe v.y4m
    for command in "noise --sigma 5" "align --flow dis"; do
        "$snls" $command v.y4m want.y4m 2>err.log >out.log || bad "$command: $(cat err.log)"; "$snls" $command - - <v.y4m 2>err.log >got.y4m || bad "$command - -: $(cat err.log)"
        "$snls" $command - got.mkv <v.y4m 2>err.log >out.log || bad "$command - got.mkv: $(cat err.log)"
        cmp want.y4m got.y4m && [ "$(ffmpeg -v error -i got.mkv -f md5 -)" = "$(ffmpeg -v error -i want.y4m -f md5 -)" ] || bad "$command of standard input: other frames"
        rm want.y4m got.y4m got.mkv
    done
    # what fails before its first frame writes nothing, no header either
    ffmpeg -v error -i v.y4m -pix_fmt gray -frames:v 2 -f yuv4mpegpipe -strict -1 grey.y4m
    for command in "3 standard.input: noise - - --sigma 5" "3 standard.input: align - - --flow dis" "2 grey noise - - --sigma 1,2,3"; do
        set -- $command; code=$1 words=$2; shift 2
        if [ $code = 3 ]; then head -c 3000 v.y4m; else cat grey.y4m; fi | "$snls" "$@" >out.log 2>err.log
        [ "${PIPESTATUS[1]}" = $code ] && [ ! -s out.log ] && grep -q -- "${words//./ }" err.log || bad "$*: $(wc -c <out.log) bytes on stdout, says $(cat err.log)"
    done
    mkfifo pipe.y4m; timeout 60 "$snls" noise pipe.y4m x.mkv --sigma 5 >out.log 2>err.log; [ $? = 2 ] && grep -q 'pipe.y4m comes once' err.log || bad "a pipe that nobody writes to is waited for: $(cat err.log)"
    # a pipe among the clips of eval is opened once
    mkdir once; mkfifo once/a.y4m; cat v.y4m >once/a.y4m & writer=$!
    timeout 60 "$snls" eval --data once --sigma 5 --preset fast --method nlm >out.log 2>err.log && grep -q '^a.y4m' out.log || bad "eval of a pipe: $(cat err.log)"
    kill $writer 2>/dev/null; wait $writer 2>/dev/null
    expect 2 'a.y4m is a pipe, which can be read once' eval --data once --sigma 5,10 --preset fast --method nlm
    # one clip may be whatever a clip is elsewhere
    mkdir one; ffmpeg -v error -i v.y4m -frames:v 2 one/%05d.png
    for clip in one/ one/%05d.png -; do
        timeout 60 "$snls" eval --data $clip --sigma 5 --preset fast --method nlm <v.y4m >out.log 2>err.log && grep -q '^mean' out.log || bad "eval of $clip: $(cat err.log)"
        timeout 60 "$snls" train $clip w.safetensors -y --width 1 --blocks 0 --wt 0 --frames 1 --crop 8 --batch 1 --steps 1 <v.y4m 2>err.log || bad "train with $clip: $(cat err.log)"
    done
    expect 2 '- is a pipe, which can be read once' eval --data - --sigma 5,10
    expect 3 'has frames of 1 channel, must have 3' train grey.y4m w.safetensors -y --frames 1 --wt 0 --crop 8
    runs noise alpha.png opaque2.png --sigma 5; grep -q 'transparency of PNG' err.log || bad "noise: lost transparency is not mentioned: $(cat err.log)"
    expect 2 'one of them' noise v.mkv - --sigma 5 --json
    expect 2 ' --crf is 20, the encoder ffv1 knows no such quality; --vcodec libx264 does' denoise v.mkv x.mkv --sigma 5 --crf 20
    expect 3 'params.first.npy: is not there' denoise params.first.npy x.npy
    expect 4 ' --vcodec is flac' denoise v.mkv x.mkv --sigma 5 --vcodec flac
    expect 2 '--vcodec has no meaning' denoise v.mkv x.npy --sigma 5 --vcodec libx264
    expect 2 'has times of its own' denoise v.mkv x.mkv --sigma 0 --fps 50
    expect 3 'ends after 3 frames' denoise v.mkv x.mkv --sigma 5 --method nlm --preset fast --clean size.npy
    ls x.* 2>/dev/null && bad "something is left"
    # what is in the way is known before any frame is done, and nothing is begun
    ffmpeg -v error -i v.mkv -c:v libx264 -an v.mp4; mkdir there; : >there/00003.png
    expect 7 'there/00003.png: exists' denoise v.mp4 there --sigma 5 --method nlm --preset fast
    [ ! -e there.resume ] || bad "a journal of nothing is left"
fi
ls ./*.part ./*/*.part 2>/dev/null && bad "parts are left"
expect 2 'demo makes a folder, not standard output' demo --out -; [ ! -e - ] || bad "demo has made a folder called -"
[ $failed = 0 ] && echo "test_files_cli: ok"
exit $((failed > 0))
