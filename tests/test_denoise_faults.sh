#!/usr/bin/env bash
# test_denoise_faults.sh BUILD SOURCE: what goes wrong around snls denoise: an exit code, one line, and nothing broken left behind;
# and a run that was stopped goes on to the same bytes.
# ctest: cost=75 timeout=300
. "$2/tests/cli.sh"
if [ ! -e "$1/libsnls_ffmpeg.so" ] || ! command -v ffmpeg >/dev/null; then
    skip "libsnls_ffmpeg.so or the ffmpeg program is missing"
fi
make() { ffmpeg -v error -nostdin -y "$@" || bad "ffmpeg cannot make ${*: -1}"; }
refused() { # CODE WORDS ARGUMENTS...: exit code, one line with these words, no output and no part of one
    local code=$1 words=$2 got; shift 2
    timeout 60 "$snls" denoise "$@" >said 2>err; got=$?
    [ $got = "$code" ] || bad "$*: exit $got, expected $code: $(cat err)"
    [ "$(wc -l <err)" = 1 ] && grep -q -- "$words" err || bad "$*: not one line with '$words': $(cat err)"
    ls | grep -q '^out' && bad "$*: left $(ls | grep '^out' | tr '\n' ' ')"
    rm -rf out*
}

make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -c:v libx264 -preset ultrafast clip.mp4
make -f lavfi -i testsrc2=s=64x48:r=25:d=2 -c:v ffv1 clip.mkv
make -f lavfi -i sine=d=1 sound.wav

# inputs
size=$(wc -c <clip.mp4); head -c $((size / 2)) clip.mp4 >cut.mp4
size=$(wc -c <clip.mkv); head -c $((size / 2)) clip.mkv >cut.mkv
: >empty.mp4; echo 'Dear diary, this is no film.' >text.mp4; head -c 5000 /dev/urandom >random.mkv
refused 3 'cut.mp4' cut.mp4 out.mkv --sigma 0
refused 3 'cut.mkv' cut.mkv out.mkv --sigma 0
refused 3 'is empty' empty.mp4 out.mkv
refused 3 'text.mp4' text.mp4 out.mkv
refused 3 'random.mkv' random.mkv out.mkv
refused 3 'is not there' none.mp4 out.mkv
refused 3 'no video' sound.wav out.mkv
refused 3 'standard input: is empty' - out.mkv </dev/null
refused 3 'standard input: is no y4m' - out.mkv <clip.mkv
refused 3 'no file has such a name' 'none_%03d.png' out.mkv
mkdir nothing; refused 3 'holds no picture' nothing out.mkv
mkdir gap; make -i clip.mp4 -frames:v 4 gap/%02d.png; rm gap/03.png
refused 3 'number 3 is missing, 4 is there' gap/%02d.png out.mkv --sigma 0
make -i clip.mp4 -frames:v 3 whole.y4m; head -c 10000 whole.y4m >half.y4m
refused 3 'cut off behind frame 2' half.y4m out.mkv --sigma 0 --pix-fmt gray # which loses colour: where a run fails, that is not said
"$snls" denoise whole.y4m gray.mkv --sigma 0 --pix-fmt gray >said 2>err; grep -q 'colour is lost' err || bad "lost colour is not mentioned: $(cat err)"; rm -f gray.mkv
"$snls" noise half.y4m out.gif --sigma 1 >said 2>err; [ $? = 3 ] && [ "$(wc -l <err)" = 1 ] && [ ! -e out.gif ] || bad "noise on half a clip: $(cat err)"
refused 3 'cut off behind frame 2' half.y4m out.mkv --sigma 0
# words of y4m's first line: any number of X of any length; sizes and formats that are none, by their names
y4m() { { echo "YUV4MPEG2 $1"; tail -n +2 whole.y4m; } >words.y4m; }
long=X$(printf 'x%.0s' $(seq 3000))
y4m "$long W64 H48 F25:1 Ip X A1:1 C420jpeg XCOLORRANGE=FULL $long"
"$snls" denoise words.y4m out.y4m --sigma 0 >/dev/null 2>err && tail -n +2 out.y4m | cmp -s - <(tail -n +2 whole.y4m) && grep -aq 'XCOLORRANGE=FULL' out.y4m || bad "long words of y4m: $(cat err)"; rm -f out*
"$snls" denoise - out.y4m --sigma 0 <words.y4m >/dev/null 2>err && tail -n +2 out.y4m | cmp -s - <(tail -n +2 whole.y4m) || bad "long words of y4m on standard input: $(cat err)"; rm -f out*
y4m 'W1000000000 H48 F25:1'; refused 3 'frames of 1000000000 x 48 pixels' words.y4m out.mkv
y4m 'W64 F25:1'; refused 3 'frames of 64 x 0 pixels' words.y4m out.mkv
y4m 'W64 H48 F25:1 Cfoo'; refused 3 'does not read this y4m header: YUV4MPEG2 W64 H48 F25:1 Cfoo' words.y4m out.mkv
printf 'YUV4MPEG2 W64 H48' >words.y4m; refused 3 'ends inside the first line' words.y4m out.mkv
refused 2 'is one picture' clip.mp4 out.png --sigma 0
refused 4 'written as .png' clip.mp4 out.tiff
"$snls" denoise cut.mkv out.mkv --sigma 0 --lenient >/dev/null 2>err && [ -s out.mkv ] || bad "--lenient: $(cat err)"; rm -f out*
head -c 300 clip.mkv >stub; refused 3 'stub' stub out.mkv

# cut off: every container whose parts tell their length, wherever it is cut; whole ones of every kind are taken, to the last frame
make -f lavfi -i testsrc2=s=64x48:r=25:d=1 -f lavfi -i sine=d=2 -c:v libx264 -preset ultrafast -c:a aac sounds.mkv
make -f lavfi -i testsrc2=s=64x48:r=24000/1001 -frames:v 25 -c:v libx264 -preset ultrafast film.mkv
make -f lavfi -i testsrc2=s=64x48:r=25 -vf "select='not(mod(n,7))+eq(n,4)'" -fps_mode vfr -frames:v 25 -c:v libx264 -preset ultrafast varies.mkv
mute="-i clip.mp4 -frames:v 25 -an"
make $mute -c:v ffv1 mute.mkv; make $mute -c:v ffv1 mute.avi; make $mute -c copy -movflags +faststart mute.mp4; make $mute -c:v libvpx-vp9 -deadline realtime mute.webm
make $mute -c copy mute.ts; make $mute -c copy mute.flv; make $mute -c copy mute.mov; make $mute -c copy -f mpegts -mpegts_m2ts_mode 1 mute.m2ts
make $mute -c:v libtheora -q:v 8 mute.ogv; make $mute -c copy -movflags +frag_keyframe+empty_moov fragments.mp4
for kind in mp4 mov ts flv; do make -i sounds.mkv -c copy sounds.$kind; done; make -i sounds.mkv -c:v ffv1 -c:a pcm_s16le sounds.avi
for kind in mp4 ts; do make -i film.mkv -c copy film.$kind; make -i varies.mkv -c copy varies.$kind; done
for clip in mute.* fragments.mp4 sounds.* film.* varies.*; do
    "$snls" denoise "$clip" whole.npy -y --sigma 0 --json >said 2>err || bad "$clip is whole, but: $(cat err)"
    [ "$clip" = mute.ogv ] || grep -q '"frames": 25,' said || bad "$clip: $(grep -o '"frames": [0-9]*' said)" # Theora leaves out what does not change
done
parts="50 90 97"
if nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then parts=90; fi # three times as slow, and the way is the same
for clip in mute.mkv mute.avi mute.mp4 mute.webm mute.ts mute.flv mute.mov mute.m2ts sounds.mkv sounds.mp4 sounds.ts fragments.mp4 film.mkv varies.mkv; do
    size=$(wc -c <"$clip")
    for part in $parts; do
        cut=cut.${clip##*.}; bytes=$((size * part / 100)); bytes=$((bytes - (bytes % 188 == 0 || bytes % 192 == 0))) # between packets of .ts nothing is to be seen
        head -c $bytes "$clip" >"$cut"; refused 3 "$cut" "$cut" out.npy --sigma 0
    done
done
# whole as well: a last frame that is long to be seen, a still picture, text behind the last part, no lengths told (cut off, its clusters tell)
make -f lavfi -i testsrc2=s=64x48:r=10:d=1 -final_delay 500 delay.gif; "$snls" denoise delay.gif delay.mkv --sigma 0 >/dev/null 2>&1
make -f lavfi -i color=s=64x48:r=25:d=3 -f lavfi -i sine=d=3 -vf mpdecimate -fps_mode vfr -c:a pcm_s16le still.mkv
{ cat mute.mp4; echo 'hello world, this is a text'; } >behind.mp4; { cat mute.flv; echo 'hello world, this is a text'; } >behind.flv
ffmpeg -v error -i mute.mkv -c copy -f matroska - | cat >piped.mkv
for clip in delay.mkv still.mkv behind.mp4 behind.flv piped.mkv; do "$snls" denoise $clip whole.npy -y --sigma 0 >said 2>err || bad "$clip is whole, but: $(cat err)"; done
head -c $(($(wc -c <piped.mkv) / 2)) piped.mkv >cut.mkv; refused 3 'is cut off' cut.mkv out.npy --sigma 0
head -c $(($(wc -c <mute.mkv) * 9 / 10)) mute.mkv >cut.mkv
"$snls" denoise cut.mkv out.npy --sigma 0 --frames 5 --json 2>err | grep -q '"frames": 5,' || bad "frames before the cut: $(cat err)"; rm -f out*
refused 3 'is cut off' cut.mkv out.npy --sigma 0 --frames 25

# what a sentence offers, the command has; and it helps
offers() { # OPTION COMMAND ARGUMENTS...
    local option=$1 word; shift
    timeout 60 "$snls" "$@" >said 2>err && bad "$*: is taken"
    for word in $(grep -o -- '--[a-z][a-z-]*' err); do "$snls" "$1" --help | grep -q -- "^ *$word" || bad "$*: offers $word, which $1 does not have"; done
    [ -z "$option" ] || grep -q -- "$option" err || bad "$*: does not offer $option: $(cat err)"
    [ -z "$option" ] || timeout 60 "$snls" "$@" "$option" >said 2>err || bad "$* $option: $(cat err)"
    rm -rf out*
}
make -f lavfi -i testsrc2=s=64x48:r=50:d=0.2 -vf "tinterlace=interleave_top,setfield=tff" -flags +ilme+ildct -c:v mpeg2video fields.mpg
head -c $(($(wc -c <mute.mkv) / 2)) mute.mkv >cut.mkv
for case in "--lenient cut.mkv" "--lenient gap/%02d.png" "--progressive fields.mpg"; do
    set -- $case
    offers $1 flow $2 out.npy --method dis; offers $1 metrics $2 $2; offers $1 align $2 out.npy --flow none; offers $1 noise $2 out.npy --sigma 5
done
offers --progressive noise fields.mpg out.mkv --sigma 5; offers --lenient eval --data cut.mkv --sigma 20 --preset fast --frames 1 --crop 16
# a picture in the way is one of a frame that is there, not of one that the file only claims
"$snls" denoise cut.mkv out.npy --sigma 0 --lenient --json >said 2>err; n=$(sed -n 's/.*"frames": \([0-9]*\),.*/\1/p' said); rm -f out*
for case in "denoise 0 out/ --sigma 0" "noise 0 out --sigma 5" "align 0 out/%05d.png --flow none --ws 1" "flow 1 out/%05d.png --method dis"; do
    set -- $case; mkdir out; echo mine >"$(printf out/%05d.png $((n - $2)))"
    "$snls" $1 cut.mkv ${@:3} --lenient >said 2>err && [ "$(ls out | wc -l)" = $((n - $2 + 1)) ] && [ "$(cat "$(printf out/%05d.png $((n - $2)))")" = mine ] || bad "$case, a picture behind frame $n: $(cat err) $(ls out | wc -l)"
    rm -rf out; mkdir out; : >"$(printf out/%05d.png $((n - $2 - 1)))"
    "$snls" $1 cut.mkv ${@:3} --lenient >said 2>err; [ $? = 7 ] && grep -q 'exists; -y' err && [ "$(ls out | wc -l)" = 1 ] && ! ls out.resume 2>/dev/null || bad "$case, a picture in the way: $(cat err) $(ls out)"; rm -rf out*
done
offers '' metrics none_%d.png none_%d.png; offers '' noise clip.mkv out.npy --sigma nan; offers '' noise clip.mkv out.npy --sigma auto
grep -q 'auto, or' err && bad "noise --sigma auto: $(cat err)"

# outputs
mkdir locked; chmod a-w locked
if [ "$(id -u)" != 0 ]; then refused 7 'locked' clip.mkv locked/out.mkv; fi
refused 7 'no/such' clip.mkv no/such/out.mkv
refused 7 'its folder is not there' clip.mkv no/such/out.mkv
if [ -d /proc/self ] && ! : 2>/dev/null >/proc/out.mkv; then refused 7 'its folder takes no files' clip.mkv /proc/out.mkv; fi
refused 4 'ending' clip.mkv out.xyz
refused 7 'exists; -y' clip.mkv clip.mp4 --sigma 0
refused 2 'is an input' clip.mkv clip.mkv -y --sigma 0
ln -s /dev/full out.y4m; timeout 60 "$snls" denoise clip.mkv out.y4m --sigma 0 >said 2>err; [ $? = 7 ] && [ "$(wc -l <err)" = 1 ] || bad "/dev/full: $(cat err)"; rm -f out*
(ulimit -f 20; exec timeout 60 "$snls" denoise clip.mkv out.nut --sigma 0 --vcodec rawvideo >said 2>err); [ $? = 7 ] && ! ls | grep -q '^out' || bad "a full disk: $? $(cat err) $(ls)"; rm -f out*
(ulimit -f 20; exec timeout 60 "$snls" denoise clip.mkv out.npy --sigma 0 >said 2>err); [ $? = 7 ] && ! ls | grep -q '^out' || bad "a full disk, .npy: $(cat err)"; rm -f out*
mkdir small # a disk with room for the output alone: the journal gives way
if mount -t tmpfs -o size=160k none small 2>/dev/null; then
    timeout 60 "$snls" denoise clip.mkv small/out.mp4 --sigma 5 --preset fast --patches1 8 --patches2 8 >said 2>err || bad "no room for a journal: $(cat err)"
    umount small
fi
"$snls" denoise clip.mkv - --sigma 0 2>err | head -c 100 >/dev/null; code=${PIPESTATUS[0]}
[ "$code" = 7 ] && [ ! -s err ] || bad "a closed pipe: $code $(cat err)"
"$snls" noise clip.mkv - --sigma 5 2>err | head -c 100 >/dev/null; code=${PIPESTATUS[0]}
[ "$code" = 7 ] && [ ! -s err ] || bad "a closed pipe of noise: $code $(cat err)"
"$snls" denoise clip.mkv - --sigma 0 2>err >/dev/full; code=$?
[ "$code" = 7 ] && [ "$(wc -l <err)" = 1 ] || bad "a full standard output: $code $(cat err)"

# options
refused 2 'must be auto, or one number or three' clip.mkv out.mkv --sigma 20,10
refused 2 'must be auto, or one number or three' clip.mkv out.mkv --sigma banana
refused 2 'must be auto, or one number or three' clip.mkv out.mkv --sigma 1,2,3,4
refused 2 '--last' clip.mkv out.mkv --first 5 --last 3
refused 2 'first wanted' clip.mkv out.mkv --first 500
refused 2 ' --enc-opt is nonsense' clip.mkv out.mkv --sigma 0 --enc-opt nonsense=1
for option in preset=zzz tune=film,grain profile=zzz b=abc crf=500; do refused 2 " --enc-opt is $option, must be " clip.mkv out.mp4 --sigma 0 --enc-opt $option; done
refused 2 " --enc-opt is profile=high, which has no lossless mode" clip.mkv out.mp4 --sigma 0 --lossless --enc-opt profile=high
refused 2 " --enc-opt is something that the encoder libx264 does not take: .*foo" clip.mkv out.mp4 --sigma 0 --enc-opt x264-params=foo=bar
if ffmpeg -hide_banner -encoders 2>/dev/null | grep -q libsvtav1; then # which ignores it, and cannot be closed before a frame
    timeout 60 "$snls" denoise clip.mkv av1.mkv --sigma 0 --vcodec libsvtav1 --enc-opt svtav1-params=foo=1 >said 2>err; code=$?; [ $code = 0 ] || [ $code = 4 ] || bad "libsvtav1 with a parameter it does not know: $code $(cat err)"
fi
refused 4 ' --vcodec is nonsense' clip.mkv out.mkv --vcodec nonsense
refused 2 'is missing' clip.mkv
refused 5 '--mem 1M: this run needs' clip.mkv out.mkv --sigma 20 --mem 1M
"$snls" denoise clip.mkv out.mkv --sigma 20 --mem 1M >said 2>err; told=$(sed -E 's/.* or ([0-9]+) MiB with.*/\1/' err) # what is told is enough, and no less
"$snls" denoise clip.mkv out.mkv --sigma 20 --preset medium --mem ${told}M >said 2>err || bad "--mem ${told}M: $(cat err)"; rm -f out*; refused 5 'this run needs' clip.mkv out.mkv --sigma 20 --mem $((told - 1))M
refused 2 '--mem' clip.mkv out.mkv --mem lots
refused 2 '--mem is 1e999' clip.mkv out.mkv --mem 1e999
if ! nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then # which need the room of addresses
    make -f lavfi -i testsrc2=s=640x480:r=25:d=0.2 -c:v ffv1 wide.mkv
    (ulimit -v 500000; OPENBLAS_NUM_THREADS=1 exec timeout 60 "$snls" denoise wide.mkv out.mkv --sigma 20 --preset slow --threads 1 >said 2>err) || ! ls | grep '^out' || bad "out of memory: $(cat err) $(ls -d out*)"
    rm -f out*
fi
refused 2 '--lossless and --crf 20' clip.mkv out.mp4 --sigma 0 --lossless --crf 20
refused 2 '--preset is given twice' clip.mkv out.mkv --preset fast --preset slow
refused 2 '--threads is given twice' clip.mkv out.mkv --threads 1 --threads=2
refused 2 '--backend is given twice' clip.mkv out.mkv --backend cpu --backend ref
for option in depth window2 patches2 step2 rank1 reuse1 reuse2 theta1; do refused 2 "--$option has no meaning with --method nlm" clip.mkv out.mkv --method nlm --$option 1; done
make -i clip.mkv -frames:v 3 -pix_fmt gray -c:v ffv1 grey.mkv
refused 2 'grey.mkv is grey' grey.mkv out.mkv --sigma 20,10,5
"$snls" noise grey.mkv out.npy --sigma 20,10,5 2>err; [ $? = 2 ] && grep -q 'grey.mkv is grey' err && [ ! -e out.npy ] || bad "noise of three sigmas on grey: $(cat err)"
# frames that do not fit are held in a file: the same result, below the limit, and nothing left
make -f lavfi -i testsrc2=s=224x176:r=25:d=0.36 -c:v ffv1 large.mkv
"$snls" denoise large.mkv roomy.y4m --sigma 20 --preset fast --patches1 8 --patches2 8 >/dev/null 2>err || bad "denoise: $(cat err)"
"$snls" denoise large.mkv out.y4m --sigma 20 --preset fast --mem 1M >/dev/null 2>err
least=$(sed -E 's/.* or ([0-9]+) MiB with.*/\1/' err | awk '{ print $1 + 11 }')
python3 - "$snls" "$least" >peak 2>err <<'PY' || bad "--mem ${least}M: $(cat err)"
import resource, subprocess, sys
subprocess.run([sys.argv[1], "denoise", "large.mkv", "held.y4m", "--sigma", "20", "--preset", "fast", "--patches1", "8", "--patches2", "8", "--mem", sys.argv[2] + "M"],
               check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
PY
grep -q 'held in a file' err || bad "--mem ${least}M: held nothing in a file: $(cat err)"
cmp roomy.y4m held.y4m || bad "--mem ${least}M changes the result"
if ! nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then # which have memory of their own
    [ "$(cat peak)" -le "$least" ] || bad "--mem ${least}M: $(cat peak) MiB were used"
fi
[ -z "$(find . -name '.snls-*')" ] || bad "--mem left a file"
make -f lavfi -i testsrc2=s=32x48:r=25:d=2 -c:v ffv1 other.mkv
refused 3 'must be the same' clip.mkv out.mkv --sigma 0 --clean other.mkv
make -i clip.mkv -frames:v 10 -c copy short.mkv
refused 3 'ends after 10 frames' clip.mkv out.mkv --sigma 0 --clean short.mkv
"$snls" denoise -i clip.mkv -o out.mkv --sigma 0 --frames 3 --json >said 2>err && grep -q '"frames": 3' said || bad "-i -o: $(cat err)"; rm -f out*

# machine-readable progress
if [ -c /dev/full ]; then
    "$snls" denoise clip.mkv out.mkv --sigma 0 --progress /dev/full >said 2>err && [ "$(wc -l <err)" = 1 ] && grep -q -- '--progress /dev/full: cannot be written: .*goes on' err || bad "--progress /dev/full: $(cat err)"; rm -f out*
fi
"$snls" denoise clip.mkv out.mkv --sigma 0 --progress p.txt >/dev/null && tail -1 p.txt | grep -q '^progress=end$' && grep -q '^frame=50$' p.txt || bad "--progress: $(cat p.txt)"; rm -f out*
"$snls" denoise sounds.mkv out.mkv --sigma 0 --progress p.txt -y >/dev/null && grep -q '^total_frames=25$' p.txt || bad "--progress, with longer sound: $(cat p.txt)"; rm -f out*
# ... which has no place where the output or --json is
for to in 1 - /dev/stdout; do
    refused 2 'so is --json' clip.mkv out.mkv --sigma 0 --progress $to --json
    refused 2 'so is OUT' clip.mkv - --sigma 0 --progress $to
done
"$snls" denoise clip.mkv out.mkv --sigma 0 --progress 3 --json 3>&1 >said 2>err | grep -q '^progress=end$' && grep -q '"frames": 50' said || bad "--progress 3 beside --json: $(cat err)"; rm -f out*
"$snls" denoise clip.mkv out.mkv --sigma 0 --progress 3 --json 3>&1 2>err | cat >said; grep -q 'so is --json' err || bad "--progress to a copy of standard output: $(cat err)"; rm -f out*
"$snls" denoise clip.mkv out.mkv --sigma 0 --progress - 2>err | grep -q '^progress=end$' || bad "--progress -: $(cat err)"; rm -f out*
# ... nor on a descriptor that the program opens itself, on an input, on another output; a file that exists needs -y, and a run that goes on adds to it
for to in 3 /dev/fd/4 /proc/self/fd/5; do refused 2 'is no open descriptor' clip.mkv out.mkv --sigma 0 --progress $to 3>&- 4>&- 5>&-; done
mkdir pics; cp gap/01.png gap/02.png pics; cp clip.mkv same.mkv; echo mine >p.txt; cksum clip.mkv same.mkv pics/* p.txt >sums
refused 2 'is an input' clip.mkv out.mkv --sigma 0 -y --progress ./clip.mkv
refused 2 'is an input' clip.mkv out.mkv --sigma 0 -y --clean same.mkv --progress same.mkv
refused 2 'is an input' pics out.mkv --sigma 0 -y --progress pics/01.png
for to in out.mkv out.mkv.part out.mkv.resume out.html out.html.part; do refused 2 'two outputs' clip.mkv out.mkv -y --report out.html --progress $to; done
for to in out/00002.png out/00002.png.part; do refused 2 'two outputs' clip.mkv out/ --sigma 0 --progress $to; done
refused 7 'p.txt: exists; -y overwrites it' clip.mkv out.mkv --sigma 0 --progress p.txt
[ "$(cksum clip.mkv same.mkv pics/* p.txt)" = "$(cat sums)" ] || bad "--progress has changed a file"
"$snls" denoise clip.mkv out.mkv --sigma 0 --progress p.txt --resume >/dev/null 2>err && [ "$(sed -n '1p;$p' p.txt | tr '\n' ' ')" = "mine progress=end " ] || bad "--resume --progress: $(cat err p.txt)"; rm -rf out*

# signals: nothing half under the name; --resume goes on to the bytes of an undisturbed run
seconds=6 late=80000 # frames enough to be stopped among them; sanitizers are so slow that half of them do
if nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then seconds=3 late=40000; fi
make -f lavfi -i testsrc2=s=32x24:r=25:d=$seconds -vf noise=alls=30:allf=t -c:v ffv1 noisy.mkv
run="$snls denoise noisy.mkv --preset fast --radius 1 --patches1 8 --patches2 8"
$run whole.mkv >/dev/null 2>err || bad "denoise: $(cat err)"
[ ! -e whole.mkv.resume ] || bad "the journal of a finished run is still there"
stop() { # SIGNAL BYTES OUT: stopped when the journal has grown so far
    env --default-signal=INT $run $3 >said 2>err & local job=$! # a shell's background jobs ignore SIGINT, and so would the program
    for _ in $(seq 1200); do
        [ "$(stat -c %s "$3.resume" 2>/dev/null || echo 0)" -gt "$2" ] && break
        kill -0 $job 2>/dev/null || break
        sleep 0.01
    done
    kill -"$1" $job 2>/dev/null; wait $job
}
for case in "TERM 3000 143" "INT $late 130" "USR1 3000 138" "KILL 6000 137"; do
    set -- $case
    stop $1 $2 stopped.mkv; code=$?
    [ $code = "$3" ] || bad "SIG$1: exit $code"
    [ $1 = KILL ] || [ "$(grep -v ': frame [0-9]* of' err)" = "snls denoise: stopped by SIG$1; with --resume the same command goes on" ] || bad "SIG$1: not one sentence: $(cat err)"
    [ ! -e stopped.mkv ] || bad "SIG$1: a file under the final name"
    [ -s stopped.mkv.resume ] || bad "SIG$1: no journal"
    [ "$1" = KILL ] || [ ! -e stopped.mkv.part ] || bad "SIG$1: a .part is left"
    $run stopped.mkv --resume --json >said 2>err || bad "--resume: $(cat err)"
    grep -q '"resumed": 0,' said && bad "SIG$1: nothing was resumed"
    cmp -s whole.mkv stopped.mkv || bad "SIG$1: a resumed run gives other bytes"
    [ ! -e stopped.mkv.resume ] && [ ! -e stopped.mkv.part ] || bad "SIG$1: journal or part is left"
    rm -f stopped*
done
# a report that cannot be written, or is not wanted any more, costs no frame
short="$run stopped.mkv --frames 5"
if [ -c /dev/full ]; then
    $short --report /dev/full >said 2>err; [ $? = 7 ] && [ ! -e stopped.mkv ] || bad "no room for the report: $(cat err)"
    $short --resume --json >said 2>err && grep -q '"resumed": 5,' said || bad "after a report without room: $(cat err said)"; rm -f stopped*
fi
mkfifo page; rm -f p.txt; $short --report page --progress p.txt >said 2>err & job=$! # a page that nobody reads: it waits there
for _ in $(seq 500); do grep -qs '^progress=end' p.txt && break; sleep 0.01; done
kill -TERM $job; wait $job; grep -q 'with --resume the same' err && $short --resume --json >said 2>err && grep -q '"resumed": 5,' said || bad "stopped before the report: $(cat err said)"; rm -f stopped* page
echo mine >r.html.part.png; $short --report r.html >said 2>err && [ "$(cat r.html.part.png)" = mine ] || bad "the report has taken r.html.part.png: $(cat err)"; rm -f stopped* r.html*
stop TERM 3000 stopped.mkv
$run stopped.mkv --resume --sigma 5 >said 2>err; [ $? = 2 ] && grep -q 'another input or other options' err || bad "a foreign journal: $(cat err)"
[ -s stopped.mkv.resume ] || bad "a refused resume has removed the journal"
rm -f stopped*

# a file of the journal's name that is somebody's own is not overwritten, but with -y
echo mine >stopped.mkv.resume
$run stopped.mkv --frames 2 >said 2>err; code=$?
[ $code = 7 ] && [ "$(cat err)" = "snls denoise: stopped.mkv.resume: exists and is no journal of snls, which would take its place (-y overwrites it)" ] && [ "$(cat stopped.mkv.resume)" = mine ] && [ "$(ls stopped*)" = stopped.mkv.resume ] || bad "somebody's own file: $code $(cat err) $(ls stopped*)"
$run stopped.mkv --frames 2 --sigma 0 >said 2>err && [ "$(cat stopped.mkv.resume)" = mine ] || bad "a copy has no journal: $(cat err)"
$run stopped.mkv --frames 2 -y >said 2>err && [ ! -e stopped.mkv.resume ] || bad "-y: $(cat err)"; rm -f stopped*

# pictures come from another thread than the one that a signal meets: none of them is left, nor their folder
make -f lavfi -i testsrc2=s=32x24:r=25:d=40 -c:v ffv1 many.mkv
for signal in TERM INT HUP; do
    rm -rf pics; env --default-signal=INT "$snls" denoise many.mkv pics/ --sigma 0 >said 2>err & job=$!
    for _ in $(seq 500); do [ -e pics/00001.png.part ] && break; sleep 0.01; done
    kill -$signal $job; wait $job; [ ! -e pics ] || bad "SIG$signal: left $(ls pics | tr '\n' ' ')"
    [ "$(grep -v ': YUV becomes RGB' err)" = "snls denoise: stopped by SIG$signal" ] || bad "pictures, SIG$signal: $(cat err)"
done

# two runs with one output: the second is refused, the first does not notice; a run that is killed lets go of it
feed() { # OUT FILE ARGUMENTS...: a run that has its first frames, so that FILE is there, and waits for the rest
    local out=$1 file=$2; shift 2
    mkfifo hose; "$snls" denoise - $out "$@" <hose >said 2>err & job=$!
    exec 8>hose; rm hose; cat whole.y4m >&8
    for _ in $(seq 500); do [ -e "$file" ] && return; sleep 0.01; done
    bad "$out: $file did not come: $(cat err)"
}
second() { # OUT ARGUMENTS...: the same as a second run
    "$snls" denoise whole.y4m "$@" -y >said2 2>err2; local code=$?
    [ $code = 7 ] && [ "$(wc -l <err2)" = 1 ] && grep -q 'another run is writing it' err2 || bad "a second run to $*: $code $(cat err2)"
}
for case in "both.mkv both.mkv.part" "both.npy both.npy.part" "both/ both.resume" "both%02d.png both%02d.png.resume"; do
    set -- $case
    feed $1 $2 --sigma 5 --preset fast; second $1 --sigma 5 --preset fast
    exec 8>&-; wait $job || bad "$1: the first run: $(cat err)"
    [ -z "$(find . -name 'both*.part' -o -name 'both*.resume')" ] || bad "$1: left $(ls)"
    rm -rf both*
done
mkdir both; feed both both/00000.png.part --sigma 0; second both --sigma 0
exec 8>&-; wait $job || bad "both: the first run: $(cat err)"
"$snls" metrics whole.y4m both >/dev/null 2>err || bad "both: $(cat err)"; rm -rf both*
feed both.mkv both.mkv.part --sigma 0; kill -KILL $job; wait $job 2>/dev/null; exec 8>&-
"$snls" denoise whole.y4m both.mkv --sigma 0 >/dev/null 2>err || bad "after a run that was killed: $(cat err)"
(flock -x 9; "$snls" noise whole.y4m both.npy --sigma 5 2>err; [ $? = 7 ] && grep -q 'another run is writing it' err) 9>both.npy.part || bad "noise to what another run writes: $(cat err)"
rm -rf both*

[ $failed = 0 ] && echo "test_denoise_faults: ok"
exit $((failed > 0))
