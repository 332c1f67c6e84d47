#!/usr/bin/env bash
# test_denoise_stan.sh BUILD SOURCE: snls denoise with the network that comes with it: little memory, frames in files, runs that were stopped
# and resumed and scene cuts change no bit; what cannot be done is said.
. "$2/tests/cli.sh"
has onednn || has lapack || skip "networks in plain loops would take minutes"
[ -n "${SNLS_PYTHON:-}" ] || skip "NumPy is missing"
"$snls" synth clean.npy --frames 40 --height 36 --width 47 --seed 4 >/dev/null && "$snls" noise clean.npy a.npy --sigma 25 >/dev/null || bad "no clip"
stan() { "$snls" denoise "$@" --sigma 25 --method stan >said 2>err; }
stan a.npy whole.npy --clean clean.npy --json || bad "denoise: $(cat err)"
[ ! -e whole.npy.resume ] || bad "a journal is left"

# the frames of a clip do not depend on how long it is, as far as the network does not look; a cut is a border
"$SNLS_PYTHON" -c '
import numpy as np
a = np.load("a.npy")
b = 255 - a[:3, ::-1, ::-1] * 0.6
np.save("b.npy", b)
np.save("ab.npy", np.concatenate([a[:12], b, a[12:13]]))
np.save("a12.npy", a[:12])
np.save("one.npy", a[12:13])' || bad "NumPy"
for clip in b ab a12 one; do stan $clip.npy ${clip}_out.npy || bad "$clip: $(cat err)"; done
"$SNLS_PYTHON" -c '
import numpy as np
load = lambda n: np.load(n + "_out.npy")
ab, whole = load("ab"), np.load("whole.npy")
assert (ab[:12] == load("a12")).all() and (ab[12:15] == load("b")).all() and (ab[15:] == load("one")).all(), "something is taken from across a cut"
assert (load("a12")[:4] == whole[:4]).all(), "the length of the clip matters"' 2>said || bad "$(tail -1 said)"

# resumed: stopped when some frames are there
stopped() # FRAMES IN OUT OPTIONS...
{
    env --default-signal=INT "$snls" denoise "${@:2}" --method stan >/dev/null 2>&1 & pid=$! # a shell's background jobs ignore SIGINT
    for i in $(seq 2000); do
        [ "$(stat -c %s "$3.resume" 2>/dev/null || echo 0)" -gt $(($1 * 36 * 47 * 12)) ] && break
        sleep 0.005
    done
    kill -INT $pid 2>/dev/null; wait $pid
}
stopped 20 a.npy part.npy --sigma 25
[ ! -e part.npy ] || bad "an interrupted run left part.npy (or was not stopped in time)"
[ -s part.npy.resume ] || bad "no journal after an interrupted run"
stan a.npy part.npy --resume --json || bad "--resume: $(cat err)"
"$SNLS_PYTHON" -c 'import json; r = json.load(open("said")); assert 20 <= r["resumed"] < 40, r["resumed"]' 2>err || bad "resumed: $(tail -1 err)"
cmp -s part.npy whole.npy || bad "a resumed run differs"
cp part.npy other.npy.resume; stan a.npy other.npy --resume; [ $? != 0 ] && [ ! -e other.npy ] || bad "a journal that is none was taken: $(cat err)"

# memory: too little is refused, little is enough with the same result
stan a.npy x.npy --mem 1M; code=$?; [ $code = 5 ] && [ ! -e x.npy ] || bad "--mem 1M: $code $(cat err)"
least=$(sed -nE 's/.* or ([0-9]+) MiB with.*/\1/p' err)
[ -n "$least" ] || bad "what is needed is not said: $(cat err)"

# A wide frame: the least that is said is enough, for what oneDNN keeps for its layers too.
"$SNLS_PYTHON" -c 'import numpy as np; np.save("wide.npy", np.random.default_rng(1).integers(0, 256, (1, 1, 40000, 3), dtype=np.uint8))' || bad "NumPy"
stan wide.npy x.npy --threads 1 --mem 1M
least=$(sed -nE 's/.* or ([0-9]+) MiB with.*/\1/p' err | awk '{ print $1 + 11 }')
"$SNLS_PYTHON" - "$snls" "$least" >peak 2>err <<'PY' || bad "--mem ${least}M: $(cat err)"
import resource, subprocess, sys
subprocess.run([sys.argv[1], "denoise", "wide.npy", "wide_out.npy", "--sigma", "25", "--method", "stan", "--threads", "1", "--mem", sys.argv[2] + "M"], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
PY
nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init' || [ "$(cat peak)" -le "$least" ] || bad "--mem ${least}M for a wide frame: $(cat peak) MiB were used" # sanitizers have memory of their own

# said beforehand
"$snls" denoise a.npy x.npy --method stan --backend cuda >/dev/null 2>err; code=$?
[ $code = 0 ] || { [ $code = 6 ] && [ ! -e x.npy ] && [ "$(wc -l <err)" = 1 ]; } || bad "--backend cuda without one: $code $(cat err)"
for option in "--sigma 256" "--sigma nan" "--sigma -1" "--preset slow" "--preset=medium" "--radius 2" "--window1 9" "--theta1 1" "--flow dis" "--method vnlb"; do
    for command in "denoise a.npy x.npy" "eval --data clean.npy"; do
        "$snls" $command --model "$2/weights/stan-s.safetensors" $option >/dev/null 2>err
        code=$?; [ $code = 2 ] && [ ! -e x.npy ] && [ "$(wc -l <err)" = 1 ] && grep -q -- "${option%%[ =]*} " err || bad "$command $option: $code $(cat err)"
    done
done

# frames without noise are copied, with an estimate as the classical denoiser copies them; what is behind them is denoised, and a resumed run gives the same
"$SNLS_PYTHON" -c '
import numpy as np
a = np.load("a.npy")[:18]
a[:6] = a[15:] = 16 # black, noise, black
np.save("lead.npy", a)
np.save("black.npy", a[:6])' || bad "NumPy"
auto() { "$snls" denoise "$@" --method stan --no-cuts --json >said 2>err || bad "denoise of $1: $(cat err)"; }
auto lead.npy lead_out.npy
grep -q 'frames no noise was found, they are copied' err || bad "frames that are copied: $(cat err)"
"$SNLS_PYTHON" -c '
import json, numpy as np
a, b, r = np.load("lead.npy"), np.load("lead_out.npy"), json.load(open("said"))
same = [bool((x == y).all()) for x, y in zip(a, b)]
assert same == [True] * 2 + [False] * 14 + [True] * 2, same # estimates look at five frames, and are for up to eight
assert r["frames_without_noise"] == 4 and 20 < r["sigma_range"][0] <= r["sigma"][0] < 30, r' 2>err || bad "a black lead: $(tail -1 err)"
stopped 9 lead.npy lead_part.npy --no-cuts
[ ! -s lead_part.npy.resume ] || auto lead.npy lead_part.npy --resume
cmp -s lead_part.npy lead_out.npy || bad "a resumed run with frames that are copied differs: $(cat err)"
auto black.npy black_out.npy; cmp -s black.npy black_out.npy && grep -q 'no noise was found, frames are copied' err && grep -q '"sigma": \[0.0, 0.0, 0.0\]' said || bad "black frames: $(cat said err)"

# grey: three equal channels, their mean
"$SNLS_PYTHON" -c '
import numpy as np
a = np.load("a.npy")[:4, ..., :1]
np.save("grey.npy", a)
np.save("three.npy", np.repeat(a, 3, -1))
np.save("grey_clean.npy", np.load("clean.npy").reshape(40, 36, 47, 3)[:4, ..., :1])'
stan grey.npy grey_out.npy || bad "a grey clip: $(cat err)"
"$snls" denoise three.npy three_out.npy --method stan --sigma 43.301270189221935 >/dev/null 2>err || bad "three channels: $(cat err)"
"$SNLS_PYTHON" -c '
import numpy as np
got, want = np.load("grey_out.npy"), np.load("three_out.npy").mean(-1, keepdims=True)
assert got.shape == (4, 36, 47, 1) and abs(got - want).max() < 1e-3, abs(got - want).max()' 2>said || bad "grey: $(tail -1 said)"
"$snls" eval --data grey_clean.npy --sigma 25 --method stan --json >said 2>err || bad "eval of a grey clip: $(cat err)"
"$SNLS_PYTHON" -c 'import json; r = json.load(open("said"))["rows"][-1]; assert r["psnr"] > r["psnr_noisy"] + 4 and abs(r["sigma_used"][0] - 25) < 1e-6, r' 2>err || bad "eval of a grey clip: $(tail -1 err)"
"$snls" denoise a.npy x.npy --method banana >/dev/null 2>err; [ $? = 2 ] && grep -q 'vnlb.*nlm.*stan.*dvdnet.*fastdvdnet' err || bad "--method banana: $(cat err)"
for command in denoise eval; do
    for said in "$("$snls" $command --help)" "$("$snls" man $command | tr -d '\\')" "$("$snls" completion bash | grep " $command:--method")" "$("$snls" completion fish | grep "from $command.* -l method")"; do
        case $said in *vnlb*nlm*stan*dvdnet*fastdvdnet*) ;; *) bad "$command: the methods are not all named in: $said" ;; esac
    done
done
# Weights that are finite, but not what becomes of them: no frames of NaN.
"$SNLS_PYTHON" -c '
import sys
data = open(sys.argv[1], "rb").read()
head = 8 + int.from_bytes(data[:8], "little")
open("large.safetensors", "wb").write(data[:head] + b"\377\173" * ((len(data) - head) // 2))' "$2/weights/stan-s.safetensors" # 65504, in f16
"$snls" denoise three.npy x.npy --model large.safetensors --sigma 25 >/dev/null 2>err; [ $? = 3 ] && [ ! -e x.npy ] && grep -q '^snls denoise: large.safetensors: .* not finite' err || bad "weights that are too large: $(cat err)"
for command in "eval --data three.npy --sigma 25 --frames 1 --model large.safetensors" "model large.safetensors --time 1x16x16"; do
    "$snls" $command >said 2>err; [ $? = 3 ] && ! grep -q nan said && grep -q "^snls ${command%% *}: large.safetensors: .* not finite" err || bad "$command: $(cat said err)"
done
# Options that would do nothing.
for command in "denoise three.npy x.npy --method stan" "eval --data three.npy --method stan" "model $2/weights/stan-s.safetensors --time 1x16x16"; do
    "$snls" $command --backend ref --precision bf16 >said 2>err; [ $? = 2 ] && grep -q -- '--precision is bf16, but --backend ref' err || bad "$command: $(cat said err)"
done
"$snls" eval --data three.npy --only seven --method stan >said 2>err; [ $? = 2 ] && grep -q -- '--only has no meaning with one clip, three.npy' err || bad "--only with one clip: $(cat err)"
mkdir bin && cp "$snls" bin/ && LD_LIBRARY_PATH=$1 bin/snls denoise a.npy x.npy --method stan >/dev/null 2>err; [ $? = 3 ] && grep -q 'bin/../share/snls/weights' err && grep -q 'bin/weights' err || bad "no weights anywhere: $(cat err)"
[ $failed = 0 ] && echo "test_denoise_stan: ok"
exit $((failed > 0))
