#!/bin/bash
# debian.sh: pip install . into a clean environment with NumPy alone, and into one that sees Debian's PyTorch; the README's
# lines in both, and the benchmark. debian12.log is what it printed. WHEELS: a folder with a wheel of NumPy, where there is
# no network. Run from the root of the tree.
set -u
cd "$(dirname "$0")/../../.." || exit 2
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
lines=$(awk '/^```python/{f=1;next}/^```/{f=0}f' README.md)
check='
import sys
print("snls", snls.__version__, "numpy", np.__version__, "torch", sys.modules["torch"].__version__ if "torch" in sys.modules else None, out.shape, type(out).__name__)'
for kind in numpy torch; do
    echo "== a clean environment, $kind"
    if [ $kind = torch ]; then /usr/bin/python3 -m venv --system-site-packages "$env/$kind"; else /usr/bin/python3 -m venv "$env/$kind"; fi
    [ $kind = torch ] || "$env/$kind/bin/pip" install -q ${WHEELS:+--no-index --find-links "$WHEELS"} numpy
    SNLS_CMAKE_ARGS="-DSNLS_WITH_CUDA=OFF" "$env/$kind/bin/pip" install --no-index . 2>&1 | grep -E '^Successfully|rror'
    (cd "$env" && "$env/$kind/bin/python" -c "$lines$check")
done
cd "$env" || exit 1
"$env/torch/bin/python" -c 'import torch
from snls import NonLocalSearch
v = torch.rand(1, 5, 16, 32, 32, requires_grad=True)
NonLocalSearch(5, 1, 3, 10, stride0=1)(v, v.flip(1))[0].sum().backward()
print("gradient", tuple(v.grad.shape))'
echo "== python -m snls.bench"
"$env/torch/bin/python" -m snls.bench
