#!/usr/bin/env bash
# test_model_names.sh BUILD SOURCE: weights as PyTorch programs of the authors name them, with no word about the architecture, are those under our names;
# what is wrong with them is said; names from a file cannot steer a terminal.
. "$2/tests/cli.sh"
[ -n "${SNLS_PYTHON:-}" ] || skip "NumPy is missing"
cat >make.py <<'PYTHON'
import json, re, struct
import numpy as np

def write(path, tensors, metadata=None):
    """As safetensors.torch.save_file writes a state dict."""
    header, data = {"__metadata__": metadata or {"format": "pt"}}, [0]
    for name, t in tensors.items():
        header[name] = {"dtype": {"f": "F32", "i": "I64"}[t.dtype.kind], "shape": list(t.shape), "data_offsets": [data[0], data[0] + t.nbytes]}
        data[0] += t.nbytes
        data.append(t.tobytes())
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(data[1:]))

rng = np.random.default_rng(1)
def drawn(*shape): return (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype("f4")

# FastDVDnet: two U-Nets
dvd = {}
def conv(block, at, cin, cout): dvd[block + at + ".weight"] = drawn(cout, cin, 3, 3)
def norm(block, at, c):
    for part in ("weight", "bias", "running_mean", "running_var"): dvd[block + at + "." + part] = (1 + 0.1 * rng.random(c) - (part in ("bias", "running_mean"))).astype("f4")
    dvd[block + at + ".num_batches_tracked"] = np.array(7, "i8")
for block in ("temp1.", "temp2."):
    conv(block, "inc.convblock.0", 4, 90); norm(block, "inc.convblock.1", 90)
    conv(block, "inc.convblock.3", 90, 32); norm(block, "inc.convblock.4", 32)
    for name, a, b in (("downc0", 32, 64), ("downc1", 64, 128)):
        conv(block, name + ".convblock.0", a, b); norm(block, name + ".convblock.1", b)
        for i in (0, 3): conv(block, name + ".convblock.3.convblock.%d" % i, b, b); norm(block, name + ".convblock.3.convblock.%d" % (i + 1), b)
    for name, a, b in (("upc2", 128, 256), ("upc1", 64, 128)):
        for i in (0, 3): conv(block, name + ".convblock.0.convblock.%d" % i, a, a); norm(block, name + ".convblock.0.convblock.%d" % (i + 1), a)
        conv(block, name + ".convblock.1", a, b)
    conv(block, "outc.convblock.0", 32, 32); norm(block, "outc.convblock.1", 32); conv(block, "outc.convblock.3", 32, 3)
write("fast.safetensors", {"module." + n: t for n, t in dvd.items()}, {"architecture": "fastdvdnet"})
write("fast_pt.safetensors", {"module." + n: t for n, t in dvd.items()})
write("fast_bare.safetensors", dvd)
write("fast_short.safetensors", dict(list(dvd.items())[:-1]))

# STAN: their names and shapes
stan = {}
def layer(name, *shape, bias=True):
    stan[name + ".weight"] = drawn(*shape)
    if bias: stan[name + ".bias"] = (0.1 * drawn(shape[0], 1)).ravel()
def ln(name, c): stan[name + ".weight"], stan[name + ".bias"] = np.ones(c, "f4"), np.zeros(c, "f4")
def res(name, c):
    layer(name + ".body.0", c, c, 3, 3); stan[name + ".body.1.weight"] = np.array([0.3], "f4"); layer(name + ".body.2", c, c, 3, 3)
def level(name, c, depth, attends=False):
    res(name + ".res.res.0", c)
    for b in range(depth):
        at = "%s.blocks.%d." % (name, b)
        ln(at + "norm1", c)
        if not attends:
            for r in range(2): res(at + "res.res.%d" % r, c)
            layer(at + "channel_attn.conv", 1, 1, 3, bias=False)
            continue
        for q, k in (("q", 1), ("k", 1), ("v", 2)): layer(at + "attn.qkv.to_" + q, k * c, c, 1, 1)
        layer(at + "attn.proj", c, 32, 10, 3, 3)
        for i in range(2): layer(at + "channel_attn_%d.conv" % i, 1, 1, 3, bias=False)
        ln(at + "norm2", c)
        layer(at + "res.main.1", c, c, 1, 3, 3); ln(at + "res.main.3", c); ln(at + "res.main.7", c)
        for g in range(2):
            for i in range(2):
                to = at + "res.main.5.%d.residual_group.blocks.%d." % (g, i)
                ln(to + "norm1", c); ln(to + "norm2", c)
                layer(to + "attn.qkv_self", 3 * c, c, bias=False); layer(to + "attn.proj", c, c); layer(to + "mlp.fc1", 2 * c, c); layer(to + "mlp.fc2", c, 2 * c)
                stan[to + "attn.relative_position_bias_table"] = drawn(675, 4)
                stan[to + "attn.relative_position_index"] = np.zeros((128, 128), "i8")
            layer(at + "res.main.5.%d.linear" % g, c, c)
layer("input_proj.proj.0", 16, 3, 3, 3)
level("encoderlayer_0", 16, 1); layer("dowsample_0.conv.0", 64, 16, 4, 4)
level("encoderlayer_1", 64, 2); layer("dowsample_1.conv.0", 192, 64, 4, 4)
level("conv", 192, 4, True)
stan["upsample_3.deconv.0.weight"], stan["upsample_3.deconv.0.bias"] = drawn(192, 64, 2, 2), np.zeros(64, "f4")
level("decoderlayer_3", 128, 2)
stan["upsample_4.deconv.0.weight"], stan["upsample_4.deconv.0.bias"] = drawn(128, 16, 2, 2), np.zeros(16, "f4")
level("decoderlayer_4", 32, 1)
layer("output_proj.proj.0", 3, 32, 3, 3)
theirs = {"net." + n: t for n, t in stan.items()}
write("stan_pt.safetensors", theirs)
write("stan_two.safetensors", {n: t + 1 if n == "net.decoderlayer_4.blocks.0.res.res.1.body.1.weight" else t for n, t in theirs.items()})

# by the table of docs/networks.md
ours = {"prelu.weight": np.array([0.3], "f4")}
for name, t in stan.items():
    if name.endswith((".relative_position_index", ".body.1.weight")): continue
    for a, b in ((".res.main.1.", ".res.main.conv."), (".res.main.3.", ".res.main.norm_in."), (".res.main.5.", ".res.main.rstb."), (".res.main.7.", ".res.main.norm_out."), (".qkv_self.", ".qkv.")): name = name.replace(a, b)
    if name.endswith(".weight") and t.ndim == 2: t = t[:, :, None, None]
    if t.ndim == 5: t = t.reshape(t.shape[0], -1, 3, 3)
    ours[name] = t
write("stan.safetensors", ours, {"architecture": "stan"})
write("odd.safetensors", {"a\x1b[31m\nb\u009b\u00e9": np.zeros(1, "f4")}, {"k\x07": "v\x1b]0;title\x07"})
PYTHON
"$SNLS_PYTHON" make.py || bad "no files"
"$snls" synth clean.npy --frames 3 --height 21 --width 26 >/dev/null && "$snls" noise clean.npy a.npy --sigma 20 >/dev/null || bad "no clip"
run() { "$snls" denoise a.npy "$1.npy" --sigma 20 --model "$1.safetensors" --no-cuts >said 2>err || bad "$1: $(cat err)"; }
run fast; run fast_pt; run fast_bare; run stan; run stan_pt
cmp -s fast.npy fast_pt.npy && cmp -s fast.npy fast_bare.npy || bad "FastDVDnet under other names is another"
cmp -s stan.npy stan_pt.npy || bad "STAN under its authors' names is another"
cmp -s stan.npy fast.npy && bad "all networks are the same"
cmp -s stan.npy a.npy && bad "STAN does nothing"
"$snls" denoise a.npy x.npy --method stan --model stan_pt.safetensors --sigma 20 >/dev/null 2>err || bad "--method stan: $(cat err)"
# eval measures what denoise gives, also where windows change that
"$snls" synth seven.npy --frames 7 --height 8 --width 12 >/dev/null && "$snls" noise seven.npy noisy.npy --sigma 20 --seed 3 >/dev/null || bad "seven frames"
"$snls" denoise noisy.npy seven_out.npy --sigma 20 --model stan.safetensors --no-cuts --threads 1 >said 2>err && "$snls" metrics seven.npy seven_out.npy --json >metrics.json 2>err || bad "seven frames: $(cat err)"
"$snls" eval --data seven.npy --sigma 20 --seed 3 --model stan.safetensors --threads 1 --json >eval.json 2>err || bad "eval: $(cat err)"
"$SNLS_PYTHON" -c '
import json
e, m = json.load(open("eval.json"))["rows"][0]["psnr"], json.load(open("metrics.json"))["psnr"]["mean"]
assert abs(e - m) < 1e-4, (e, m)' 2>err || bad "eval and denoise: $(tail -1 err)"
"$snls" model fast.safetensors --time 1x8x8 --json --threads 1 | grep -q '"parameters": 2479096, "radius": 2,' || bad "FastDVDnet has other parameters than its authors count"
refused() { "$snls" denoise a.npy no.npy --sigma 20 --model "$1" >/dev/null 2>err; code=$?; [ $code = "$2" ] && grep -q "$3" err && [ ! -e no.npy ] || bad "$1: $code $(cat err)"; }
refused stan_two.safetensors 3 "another slope"
refused fast_short.safetensors 3 "has no tensor module.temp2.outc.convblock.3.weight"
refused odd.safetensors 4 "no architecture"
"$snls" synth tiny.npy --frames 2 --height 8 --width 8 >/dev/null && "$SNLS_PYTHON" -c 'import numpy as np; np.save("a.npy", np.load("tiny.npy")[0, :, :3, :5])'
refused stan.safetensors 4 "5 x 3 pixels, stan takes 4 x 4"
# What the loader takes a file for is what `snls model` tells.
told() { "$snls" model "$1" >said 2>err && grep -q "^architecture  *$2\$" said && "$snls" model "$1" --json | grep -q "\"architecture\": $3"; } # FILE WORD JSON
told fast_pt.safetensors fastdvdnet '"fastdvdnet"' && told fast_bare.safetensors fastdvdnet '"fastdvdnet"' && told stan_pt.safetensors stan '"stan"' || bad "the architecture by names: $(head -4 said) $(cat err)"
told fast.safetensors fastdvdnet '"fastdvdnet"' && [ "$(grep -c '^architecture' said)" = 1 ] || bad "the architecture of the metadata: $(head -4 said)"
told odd.safetensors unknown null || bad "no architecture: $(head -4 said)"
"$snls" model odd.safetensors >said 2>err || bad "odd names: $(cat err)"
grep -q '\\x1b\[31m\\x0ab\\xc2\\x9b' said && grep -q 'k\\x07  *v\\x1b]0;title\\x07' said || bad "odd names: $(cat -v said)"
[ "$(tr -d '\n' <said | LC_ALL=C tr -d ' -~\303\251' | wc -c)" = 0 ] || bad "control characters: $(cat -v said)"
[ $failed = 0 ] && echo "test_model_names: ok"
exit $((failed > 0))
