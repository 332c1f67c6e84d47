#!/usr/bin/env bash
# test_weights.sh BUILD SOURCE: the weights that come with snls are those of their manifest, and --method stan denoises with them: a clip
# of our own, and a real one where it is at hand.
. "$2/tests/cli.sh"
weights=$2/weights
python=${SNLS_PYTHON:-$(command -v python3)}
[ -n "$python" ] || skip "no Python"
number() { "$python" -c "import json, sys; print(json.load(open(sys.argv[1]))$2)" "$1"; }

want=$(number "$weights/stan-s.json" "['sha256']")
got=$(sha256sum < "$weights/stan-s.safetensors" | cut -d' ' -f1)
[ "$got" = "$want" ] || bad "the checksum of stan-s.safetensors is $got, its manifest has $want"
"$snls" model "$weights/stan-s.safetensors" --json > model.json || bad "snls model"
[ "$(number model.json "['elements']")" = "$(number "$weights/stan-s.json" "['parameters']")" ] || bad "the number of parameters is not the manifest's"
[ "$(number model.json "['sha256']")" = "$want" ] || bad "snls model has another checksum than sha256sum"
cp "$weights/stan-s.safetensors" "$weights/stan-s.json" . && printf x | dd of=stan-s.safetensors bs=1 seek=3000000 conv=notrunc 2>/dev/null
"$snls" model stan-s.safetensors >/dev/null 2>err; [ $? = 8 ] && grep -q manifest err || bad "a changed byte is not noticed: $(cat err)"
"$snls" model stan-s.safetensors --time 1x16x16 >/dev/null 2>err; [ $? = 8 ] || bad "a changed byte is timed: $(cat err)"
echo '{' >stan-s.json; "$snls" model stan-s.safetensors >/dev/null 2>err; [ $? = 3 ] && grep -q 'stan-s.json: the manifest of stan-s.safetensors is no JSON' err || bad "half a manifest: $(cat err)"
for other in '[1, 2]' '"text"' 7 null '{"a": 1, "a": 2}' '{"sha256": 5}'; do # some other file of that name
    echo "$other" >stan-s.json; "$snls" model stan-s.safetensors >/dev/null 2>err || bad "beside $other: $(cat err)"
done
for make in mkdir mkfifo; do
    rm -rf stan-s.json; $make stan-s.json; timeout 60 "$snls" model stan-s.safetensors >/dev/null 2>err || bad "beside what $make makes: $(cat err)"
done
for n in 0 1 55 56 63 64 65 119 120 1000; do # where the last block ends
    head -c $n /dev/zero >a.bin; printf '\075\000\000\000\000\000\000\000{"a":{"dtype":"U8","shape":[%5d],"data_offsets":[0,%5d]}}' $n $n | cat - a.bin >a.safetensors
    [ "$("$snls" model a.safetensors | sed -n 's/^sha256 *//p')" = "$(sha256sum <a.safetensors | cut -d' ' -f1)" ] || bad "checksum of $n bytes more"
done

"$snls" synth clean.npy --frames 5 --height 64 --width 96 --seed 3 >/dev/null && "$snls" noise clean.npy noisy.npy --sigma 30 >/dev/null || bad "no clip"
"$snls" denoise noisy.npy out.npy --method stan --sigma 30 --clean clean.npy --json > run.json 2>err || bad "denoise --method stan: $(cat err)"
"$python" -c 'import json; r = json.load(open("run.json")); gain = r["psnr"]["mean"] - r["psnr_before"]["mean"]; assert gain > 6, gain' 2>err || bad "a clip of our own gains little: $(tail -1 err)"
SNLS_WEIGHTS=nowhere "$snls" denoise noisy.npy x.npy --method stan >/dev/null 2>err; [ $? = 3 ] && [ ! -e x.npy ] || bad "missing weights: $(cat err)"
"$snls" model "$weights/stan-s.safetensors" --time 1x16x16 --precision f32 --json > time.json || bad "model --time --precision"
[ "$(number time.json "['dtype']")" = f32 ] || bad "--precision f32 runs in $(number time.json "['dtype']")"
"$snls" model "$weights/stan-s.safetensors" --precision f32 >/dev/null 2>err; [ $? = 2 ] || bad "a precision of nothing that runs: $(cat err)"
"$snls" denoise noisy.npy x.npy --method stan --precision f64 >/dev/null 2>err; [ $? = 2 ] && [ ! -e x.npy ] || bad "an unknown precision: $(cat err)"
grep -q -- '--precision is f64, must be auto, f32 or bf16' err || bad "an unknown precision: $(cat err)"
"$snls" model "$weights/stan-s.safetensors" --time 2x9x7 --backend ref 2>err | grep -q ' on ref: ' || bad "model --time --backend ref does not say so: $(cat err)"
"$snls" denoise noisy.npy x.npy --precision f32 >/dev/null 2>err; [ $? = 2 ] && [ ! -e x.npy ] || bad "a precision without a network: $(cat err)"
"$snls" denoise noisy.npy x.npy --method dvdnet >/dev/null 2>err; [ $? = 2 ] && [ ! -e x.npy ] || bad "dvdnet without weights: $(cat err)"

cp "$weights/stan-s.safetensors" w.npy
for out in "x.npy --report w.npy" w.npy; do
    "$snls" denoise noisy.npy $out --model w.npy --sigma 30 -y >/dev/null 2>err; [ $? = 2 ] && grep -q 'w.npy: is an input' err || bad "weights written over by $out: $(cat err)"
done
cmp -s w.npy "$weights/stan-s.safetensors" && [ ! -e x.npy ] || bad "weights were written over"

clips=$2/../shared/data/test
if [ -e "$clips/davis_blackswan" ] && has jpeg; then
    "$snls" eval --data "$clips" --only blackswan --crop 240 --frames 5 --sigma 50 --method stan --json > eval.json 2>err || bad "eval --method stan: $(cat err)"
    "$python" -c 'import json; p = json.load(open("eval.json"))["rows"][-1]["psnr"]; assert p > 28.5, p' 2>err || bad "blackswan at sigma 50: $(tail -1 err)"
fi
exit $((failed > 0))
