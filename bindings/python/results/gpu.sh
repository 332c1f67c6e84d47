#!/bin/bash
# gpu.sh: pip install . into a fresh environment on a machine with a GPU and PyTorch (SNLS_BUILD_DIR: libraries that are built), then
# the README's lines with NumPy and on the GPU, the benchmark, the examples and all tests (a process for each file, side by side); h200.log is what it printed on one. Run from the root of the tree.
set -u
cd "$(dirname "$0")/../../.." || exit 2
tree=$PWD env=$(mktemp -d)
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
lines=$(awk '/^```python/{f=1;next}/^```/{f=0}f' README.md)
cd "$env" || exit 1 # so that the tree is not imported by chance
step "the README's lines"
$python -c "$lines
print(type(out).__name__, out.shape, 'site-packages' in snls.__file__)"
step "the same with a tensor on the GPU, and its gradient"
$python -c "import torch
$(echo "$lines" | sed 's/np.random.rand(.*).astype("float32")/torch.rand(1, 5, 64, 64, 16, device="cuda", requires_grad=True)/')
out.square().mean().backward()
print(type(out).__name__, tuple(out.shape), out.device, 'gradient', tuple(video.grad.shape), bool(video.grad.abs().sum() > 0))"
step "python -m snls.bench"
$python -m snls.bench --rounds 100
step "tests and examples"
for file in "$tree"/bindings/python/tests/test_[cdemnt]*.py; do # of networks what runs on the GPU: on the CPU they are plain loops where there is no BLAS
    case $file in *model*) only="-k cuda -k what" ;; *) only= ;; esac
    OMP_NUM_THREADS=4 timeout 80 $python -W ignore -m unittest discover -s "$tree/bindings/python/tests" -p "$(basename "$file")" $only -v >"$env/$(basename "$file").log" 2>&1 &
done
for name in attention learn_offsets; do $python "$tree/examples/$name.py" --device cuda >"$env/$name.out" 2>&1 & done
wait
for file in "$env"/test_*.log; do
    echo "-- $(basename "$file" .log)"
    grep -E '^test_|^(FAIL|ERROR|OK|Ran)|Error|skipped|\.\.\. ok$' "$file" | grep -v '^Calls\|^An eager\|^From the' | cut -c 1-160
done
for name in attention learn_offsets; do echo "-- examples/$name.py" && head -n 8 "$env/$name.out"; done
step "end"
