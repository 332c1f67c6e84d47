#!/bin/bash
# gpu.sh: pip install . into a fresh environment on a machine with a GPU and PyTorch (SNLS_BUILD_DIR: libraries that are built), then
# the README's lines, the benchmark, all tests,
# the examples and calls that are compiled; h200.log is what it printed on one. Run from the root of the tree.
set -u
cd "$(dirname "$0")/../../.." || exit 2
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
step() { echo; echo "== $1 ($SECONDS s)"; }
step "machine"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
python3 -c 'import sys, torch, numpy; print("python", sys.version.split()[0], "torch", torch.__version__, "numpy", numpy.__version__)'
step "pip install ."
python3 -m venv --system-site-packages "$env" # and, where python3 is an environment itself, what that one has:
python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$(echo "$env"/lib/python3*/site-packages)/parent.pth"
SNLS_CMAKE_ARGS="-DSNLS_CUDA_ARCHS=90-real ${SNLS_CMAKE_ARGS:-}" \
    "$env/bin/python" -m pip install --no-index . 2>&1 | grep -E '^Successfully|rror'
python=$env/bin/python
cd "$env" || exit 1 # so that the tree is not imported by chance
tree=$OLDPWD
step "the README's lines, on the GPU and with NumPy"
$python - <<'PY'
import torch, snls
video = torch.rand(1, 5, 16, 64, 64, device="cuda", requires_grad=True)                              # (B,T,C,H,W)
dist, offset = snls.NonLocalSearch(ws=9, wt=1, ps=3, k=10, stride0=1, stride1=0.5)(video, video)
out = snls.WeightedPatchSum(ps=3, stride0=1)(video, snls.weights(dist), offset)
out.square().mean().backward()
print(tuple(out.shape), out.device, float(video.grad.abs().sum()) > 0, "site-packages" in snls.__file__)
PY
$python - <<'PY'
import numpy as np, snls
video = np.random.rand(1, 5, 64, 64, 16).astype("float32")
dist, offset = snls.search(video, video, wt=1, ps=3, k=10)
out = snls.gather_add(video, snls.weights(dist), offset, ps=3)
print(out.shape, type(out).__name__)
PY
step "python -m snls.bench"
$python -m snls.bench
step "tests"
$python -m unittest discover -s "$tree/bindings/python/tests" -p 'test_[cdemnt]*.py' -v 2>&1 | grep -vE '^(ok|)$|[Ww]arn' | tail -n 90
step "examples/attention.py"
$python "$tree/examples/attention.py" --device cuda
step "examples/learn_offsets.py"
$python "$tree/examples/learn_offsets.py" --device cuda
step "python -m snls.bench --compile"
$python -m snls.bench --compile --rounds 100 | grep compiled
step "end"
