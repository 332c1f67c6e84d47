#!/bin/bash
# ctest: label=fast timeout=300
# test_train_cli.sh BUILD SOURCE: snls train as a user has it: stopped by a signal and resumed it ends where it would have ended,
# files appear whole or not at all, the weights denoise.
set -u
snls=$1/snls
[ -x "$snls" ] || { echo "skipped: no command line"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
die() { echo "$*"; exit 1; }
numbers() { tail -c +$((9 + $(od -An -t u8 -N 8 "$1"))) "$1"; } # of a checkpoint, without its header, which tells the commands
same_state() { cmp <(numbers "$1") <(numbers "$2") && [ "$("$snls" model "$1" | grep '^step ')" = "$("$snls" model "$2" | grep '^step ')" ]; }

mkdir clips unseen
for i in 1 2; do "$snls" synth clips/$i.npy --height 40 --width 40 --seed $i || die "synth"; done
"$snls" synth unseen/3.npy --height 40 --width 40 --seed 3 || die "synth"
options="--width 8 --blocks 1 --ws 5 --wt 1 --frames 3 --crop 24 --batch 2 --steps 80 --warmup 5 --rate 1e-2 --sigma-low 30 --sigma-high 30 --threads 1"
every="--every 7"

"$snls" train clips whole.safetensors $options $every --checkpoint whole.state --log whole.jsonl --curve whole.svg --json >whole.json 2>whole.err || die "train: $(cat whole.err)"
[ "$(wc -l <whole.jsonl)" = 80 ] || die "80 steps make $(wc -l <whole.jsonl) lines"
grep -q '"steps": 80' whole.json || die "the report does not tell the steps: $(cat whole.json)"
grep -q '<polyline' whole.svg || die "no curve"
"$snls" model whole.safetensors >model.txt && grep -q 'command *snls train clips whole.safetensors' model.txt || die "the weights do not tell where they come from"

# Stopped after a few steps, once by each signal, then to the end. Who asks for a pause (USR1) gets 0, who ends the program learns that there are no weights.
for signal in USR1:0 TERM:143 INT:130; do
    ends=${signal#*:} signal=${signal%:*}
    resume=; [ -f parts.state ] && resume=--resume
    before=$(cat parts.jsonl 2>/dev/null | wc -l)
    env --default-signal=INT "$snls" train clips parts.safetensors $options $every --checkpoint parts.state --log parts.jsonl $resume 2>parts.err &
    pid=$!
    for _ in $(seq 500); do [ "$(cat parts.jsonl 2>/dev/null | wc -l)" -gt $((before + 3)) ] && break; sleep 0.02; done
    kill -$signal $pid
    wait $pid; code=$?
    [ ! -e parts.safetensors.part ] || die "$signal leaves a part of the output"
    grep -q 'stopped after step' parts.err || ends=0
    [ $code = $ends ] || die "stopped by $signal it says $code: $(tail -1 parts.err)"
    [ -f parts.state ] || die "$signal left no checkpoint"
    grep -q 'stopped after step' parts.err && [ -e parts.safetensors ] && die "a stopped run wrote weights"
done
"$snls" train clips parts.safetensors $options $every --checkpoint parts.state --log parts.jsonl --resume -y 2>parts.err || die "resume: $(cat parts.err)"
same_state whole.state parts.state || die "a run that was stopped twice ends elsewhere"
ls ./*.part ./*.lock 2>/dev/null && die "half files are left"
"$snls" model parts.safetensors >model.txt
grep -q '^command *snls train clips parts.safetensors .*--log parts.jsonl$' model.txt || die "the weights do not tell the first command: $(cat model.txt)"
for i in 1 2 3; do grep -q "^resume $i *from step [1-9][0-9]*: snls train clips .*--resume" model.txt || die "the weights do not tell resume $i: $(cat model.txt)"; done
grep -q '^resume 4' model.txt && die "there were three resumes: $(cat model.txt)"

# Killed, with half a line in the log and steps behind the checkpoint: it ends at the same place, and the log has every step once.
"$snls" train clips killed.safetensors $options $every --checkpoint killed.state --log killed.jsonl 2>killed.err &
pid=$!
for _ in $(seq 500); do [ "$(cat killed.jsonl 2>/dev/null | wc -l)" -gt 9 ] && break; sleep 0.02; done
"$snls" train clips other.safetensors $options $every --checkpoint killed.state -y 2>other.err; code=$?
[ $code = 7 ] && grep -q 'killed.state: another run is writing it' other.err || die "two runs with one checkpoint: $code $(cat other.err)"
kill -KILL $pid; wait $pid 2>/dev/null
printf '{"step":4' >>killed.jsonl
"$snls" train clips killed.safetensors $options $every --checkpoint killed.state --log killed.jsonl --resume -y --json >killed.json 2>killed.err || die "resume after KILL: $(cat killed.err)"
same_state whole.state killed.state || die "a run that was killed ends elsewhere"
[ "$(sed 's/,"seconds.*//' whole.jsonl)" = "$(sed 's/,"seconds.*//' killed.jsonl)" ] || die "the log of a run that was killed is another: $(grep -n -v '^{"step":[0-9]*,.*}$' killed.jsonl | head -3)"
grep -q '"stopped": false' killed.json || die "the report does not tell whether it was stopped"

printf 'a note' >notes.txt
"$snls" train clips killed.safetensors $options $every --checkpoint killed.state --log notes.txt --resume -y 2>err && [ "$(cat notes.txt)" = 'a note' ] || die "a log of one line of something else: $(cat notes.txt err)"
psnr=$("$snls" eval --data unseen --sigma 30 --model whole.safetensors --threads 1 --json | sed 's/.*"clip": "mean"[^}]*"psnr": \([0-9.]*\).*/\1/')
awk -v p="$psnr" 'BEGIN { exit !(p > 22.5) }' || die "18.6 dB become only $psnr"

fails() # CODE COMMAND...
{
    local want=$1; shift
    "$@" >/dev/null 2>err; local got=$?
    [ $got = "$want" ] && [ "$(wc -l <err)" = 1 ] || die "$*: exit $got with $(wc -l <err) lines, expected $want: $(cat err)"
}
fails 7 "$snls" train clips whole.safetensors $options
fails 2 "$snls" train clips new.safetensors --crop 30; grep -q -- '--crop is 30' err || die "the option is not named: $(cat err)"
fails 2 "$snls" train clips new.safetensors --crop 16 --crop 32; grep -q -- '--crop is given twice' err || die "--crop twice: $(cat err)"
fails 2 "$snls" train clips new.weights $options
fails 2 "$snls" train clips new.safetensors $options --seed 4294967297; grep -q -- '--seed is 4294967297' err || die "a seed that would be cut: $(cat err)"
fails 7 "$snls" train clips new.safetensors $options $every --checkpoint whole.state
fails 7 "$snls" train clips new.safetensors $options $every --checkpoint nowhere/run.state
fails 7 "$snls" train clips new.safetensors $options $every --checkpoint /dev/null; [ -c /dev/null ] || die "/dev/null was replaced"
fails 2 "$snls" train clips new.safetensors $options $every --checkpoint new.safetensors
echo kept >new.state.part
for log in new.state ./new.state ../"${work##*/}"/new.state new.state.part new.state.lock; do
    fails 2 "$snls" train clips new.safetensors $options $every --checkpoint new.state --log $log; grep -q 'would be the same file' err || die "--log $log beside --checkpoint: $(cat err)"
done
ln -s whole.state linked.state; fails 2 "$snls" train clips new.safetensors --resume --checkpoint linked.state --log whole.state.part
[ "$(cat new.state.part)" = kept ] && [ ! -e new.state ] && [ ! -e whole.state.part ] || die "a refused log was written to"
rm new.state.part linked.state
fails 2 "$snls" train clips new.safetensors --resume --checkpoint whole.state --width 9; grep -q -- '--width is 9, but the run began with 8' err || die "another width: $(cat err)"
fails 2 "$snls" train clips new.safetensors --resume --checkpoint whole.state --width 32; grep -q -- '--width is 32, but the run began with 8' err || die "a width that is the default: $(cat err)"
fails 2 "$snls" train clips new.safetensors --resume --checkpoint whole.state --seed 2; grep -q -- '--seed is 2, but the run began with 1' err || die "another seed: $(cat err)"
fails 2 "$snls" train clips new.safetensors --resume --checkpoint whole.state --steps 79; grep -q -- '--steps is 79, but 80 are done' err || die "fewer steps: $(cat err)"
fails 2 "$snls" train clips new.safetensors $options --other-clips
fails 2 "$snls" train clips new.safetensors $options $every; grep -q -- '--every has no meaning without --checkpoint' err || die "--every without --checkpoint: $(cat err)"

# Other clips, or other pixels, are refused unless asked for; clips may move, the run may become longer and its weights be stored otherwise.
mkdir more others; cp clips/*.npy more/; cp unseen/3.npy more/; cp clips/1.npy others/; cp unseen/3.npy others/2.npy
fails 3 "$snls" train more new.safetensors --resume --checkpoint whole.state; grep -q 'the number of clips is 3, but the run began with 2' err || die "more clips: $(cat err)"
fails 3 "$snls" train others new.safetensors --resume --checkpoint whole.state; grep -q 'not those that the run began with' err || die "other clips: $(cat err)"
cp -r clips moved; cp whole.state longer.state
"$snls" train moved longer.safetensors --resume --checkpoint longer.state --steps 82 --store f16 --threads 1 --curve late.svg 2>err || die "more steps: $(cat err)"
grep -q 'points="61[0-9]' late.svg || die "the last two of 82 steps begin elsewhere in the curve: $(grep polyline late.svg)"
grep -q 'differ in the last bits' err && die "one thread is another place than one thread: $(cat err)"
"$snls" model longer.safetensors >model.txt
grep -q '^steps *82$' model.txt && grep -q ' f16 ' model.txt && grep -q '^resume 1 *from step 80: snls train moved' model.txt || die "82 steps: $(head -12 model.txt)"
"$snls" train others longer.safetensors --resume --checkpoint longer.state --steps 83 --other-clips --threads 1 -y 2>err || die "--other-clips: $(cat err)"
"$snls" train others other.safetensors --resume --checkpoint longer.state --threads 2 -y 2>err || die "two threads: $(cat err)"
grep -q 'was made by --backend cpu, --threads 1 and goes on by --backend cpu, --threads 2: it may differ in the last bits$' err || die "two threads after one: $(cat err)"
"$snls" model longer.safetensors | grep -q '^resume 2 *from step 82: .*--other-clips' || die "--other-clips is not told"
cp clips/1.npy clip.npy
for option in checkpoint log curve; do
    fails 2 "$snls" train clips new.safetensors $options --$option clips/1.npy -y; grep -q 'clips/1.npy: is an input' err || die "--$option on a clip: $(cat err)"
done
fails 2 "$snls" train clips whole.safetensors $options --init whole.safetensors -y
cmp clips/1.npy clip.npy || die "a clip was written to"
timeout 60 "$snls" train clips new.safetensors $options --log /dev/full 2>err; [ $? = 7 ] || die "a log without room: $(tail -1 err)"
for step in 81 +x; do LC_ALL=C sed "s/\"step\":\( *\)\"80\"/\"step\":\1\"$step\"/" whole.state >bad.state; fails 3 "$snls" train clips new.safetensors --resume --checkpoint bad.state; grep -q 'its step' err || die "step $step: $(cat err)"; done
cp whole.state bad.state; printf '\000\000\300\177' | dd of=bad.state bs=1 conv=notrunc seek=$(($(wc -c <bad.state) - 4)) 2>/dev/null
fails 3 "$snls" train clips new.safetensors --resume --checkpoint bad.state; grep -q 'is nan, must be finite' err || die "NaN in a checkpoint: $(cat err)"
cp whole.safetensors bad.safetensors; printf '\000\000\300\177' | dd of=bad.safetensors bs=1 conv=notrunc seek=$(($(wc -c <bad.safetensors) - 4)) 2>/dev/null
fails 3 "$snls" train clips new.safetensors $options --init bad.safetensors; grep -q 'is nan, must be finite' err || die "NaN in the weights to begin with: $(cat err)"
fails 3 "$snls" train clips new.safetensors ${options/--blocks 1/--blocks 0} --init whole.safetensors; grep -q 'tensors, a network of these options has' err || die "a deeper network to begin with: $(cat err)"
head -c 5000 whole.state >cut.state; fails 3 "$snls" train clips new.safetensors --resume --checkpoint cut.state
name=$(printf 'caf\351'); mkdir "$name" && cp clips/1.npy "$name" && "$snls" train "$name/1.npy" name.safetensors --width 1 --blocks 0 --wt 0 --frames 1 --crop 8 --batch 1 --steps 2 \
    --sigma-high 0 --curve name.svg 2>err || die "one clip, in a folder whose name is no UTF-8: $(cat err)"
grep -q nan name.svg && die "a curve through nothing"
[ -e new.safetensors ] && die "a run that failed wrote weights"
fails 4 "$snls" train clips new.safetensors $options --precision bf16; grep -q '^snls train: --precision is bf16, must be auto or f32 on a CPU' err || die "bf16 on a CPU: $(cat err)"
head=$((8 + $(od -An -t u8 -N 8 whole.safetensors))); { head -c $head whole.safetensors; numbers whole.safetensors | tr '\000-\377' '~'; } >large.safetensors # 8e37, all of them
"$snls" train clips new.safetensors $options --init large.safetensors 2>err; [ $? = 1 ] && grep -q '^snls train: the [a-z]* of step 1 is not finite' err || die "weights that are too large: $(cat err)"
fails 2 "$snls" train clips new.safetensors --resume
fails 3 "$snls" train nowhere new.safetensors $options; grep -q 'nowhere: is not there' err || die "no data: $(cat err)"
# a folder of many clips
mkdir many; for i in $(seq 1100); do ln -s ../clips/1.npy many/$i.npy; done
timeout 60 "$snls" train many new.safetensors ${options/--steps 80/--steps 5} 2>err && grep -q ' 1100 clips' err || die "1100 clips: $(tail -1 err)"; rm -rf new.safetensors many
fails 3 "$snls" train clips new.safetensors --frames 50 --crop 24
fails 3 "$snls" train clips new.safetensors --resume --checkpoint whole.safetensors
fails 3 "$snls" eval --data unseen --sigma 30 --model whole.state.safetensors
fails 3 "$snls" model clips/1.npy
fails 2 "$snls" model whole.safetensors --time 3x16
fails 2 "$snls" train clips new.safetensors --resume --checkpoint whole.state.safetensors --init whole.safetensors
"$snls" model whole.safetensors --time 3x16x16 | grep -q "stan-s in .* 3 frames of 16x16" || die "model --time"
echo "ok, $psnr dB"
