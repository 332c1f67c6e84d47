#!/usr/bin/env bash
# test_denoise_model.sh BUILD SOURCE: snls denoise --model on windows of frames gives what neighbours alone decide: the same frames
# whatever the length of the clip, and nothing across a scene cut.
. "$2/tests/cli.sh"
weights=$2/../shared/data/weights
if [ -z "${SNLS_PYTHON:-}" ] || [ ! -e "$weights/dvdnet_spatial.safetensors" ]; then
    skip "NumPy or the weights of DVDnet are missing"
fi
"$snls" synth clean.npy --frames 13 --height 40 --width 56 >/dev/null && "$snls" noise clean.npy a.npy --sigma 25 >/dev/null || bad "no clip"
"$SNLS_PYTHON" -c '
import numpy as np
a = np.load("a.npy")
b = 255 - a[:7, ::-1, ::-1] * 0.6
np.save("b.npy", b)
np.save("ab.npy", np.concatenate([a, b]))' || bad "NumPy"
run() { "$snls" denoise "$@" --sigma 25 --model "$weights" >said 2>err || bad "$*: $(cat err)"; }
run a.npy a_out.npy --clean clean.npy --json; grep -q '"method": "network"' said || bad "method: $(cat said)"
run a.npy short.npy --frames 8
run b.npy b_out.npy
run ab.npy ab_out.npy
"$SNLS_PYTHON" -c '
import json, numpy as np
load = lambda n: np.load(n + "_out.npy" if n != "short" else "short.npy")
a, b, ab, short = load("a"), load("b"), load("ab"), load("short")
said = abs(a - np.load("clean.npy")).mean(), abs(np.load("a.npy") - np.load("clean.npy")).mean()
assert said[0] < said[1] / 2, said
assert a.shape == (13, 40, 56, 3) and short.shape[0] == 8
assert (a[:6] == short[:6]).all(), "the length of the clip matters"
assert (ab[:13] == a).all() and (ab[13:] == b).all(), "something is taken from across the cut"' 2>said || bad "$(tail -1 said)"
"$snls" denoise a.npy x.npy --model nothing.safetensors >/dev/null 2>err; [ $? = 3 ] && [ ! -e x.npy ] || bad "missing weights: $(cat err)"
# Frames without noise are copied, and what a window is told is what the noisy ones have, wherever they are in it.
"$SNLS_PYTHON" -c '
import numpy as np
a = np.load("a.npy")
a[8:] = 16
np.save("tail.npy", a)' || bad "NumPy"
"$snls" denoise tail.npy tail_out.npy --model "$weights" --no-cuts --json >said 2>err || bad "a black tail: $(cat err)"
"$SNLS_PYTHON" -c '
import json, numpy as np
a, b, clean = (np.load(n + ".npy").reshape(13, 40, 56, 3) for n in ("tail", "tail_out", "clean"))
assert (b[8:] == 16).all() and json.load(open("said"))["frames_without_noise"] == 5, abs(b[8:] - 16).max()
gain = [abs(a[t] - clean[t]).mean() / abs(b[t] - clean[t]).mean() for t in range(8)]
assert min(gain) > 1.5, gain' 2>err || bad "a black tail: $(tail -1 err)"
[ $failed = 0 ] && echo "test_denoise_model: ok"
exit $((failed > 0))
