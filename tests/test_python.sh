#!/bin/bash
# The Python package over the library of this build: with NumPy alone, with PyTorch, as an installed wheel, and the page docs/python.md.
# ctest: name=numpy args=numpy
# ctest: name=torch label=tree args=torch
# ctest: name=page label=tree args=page
# ctest: name=install label=tree args=install
set -u
build=$1 root=$2 what=$3
skip() { echo "test_python: $1"; exit 77; }
[ -n "${SNLS_PYTHON:-}" ] || skip "there is no Python with NumPy: skipped"
[ -z "$(sed -n 's/^SNLS_SANITIZE:STRING=//p' "$build/CMakeCache.txt")" ] || skip "Python cannot load a library built with sanitizers: skipped"
export PYTHONPATH=$root/bindings/python SNLS_LIBRARY=$build/libsnls.so PYTHONDONTWRITEBYTECODE=1
unset SNLS_CUDA_LIBRARY # a GPU's tests are run by hand: bindings/python/results

has() { "$1" -c "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in sys.argv[1:]))" "${@:2}" 2>/dev/null; }
run() { exec "$python" -m unittest discover -s "$root/bindings/python/tests" -p "$1"; }

find_torch()
{
    for python in "$SNLS_PYTHON" python3 /usr/bin/python3; do
        has "$python" numpy torch && return 0
    done
    return 1
}

python=$SNLS_PYTHON
case $what in
page) find_torch || python=$SNLS_PYTHON; exec "$python" "$root/tools/python_page.py" --check ;;
numpy) export SNLS_TORCH=0; run 'test_[dmn]*.py' ;; # declared, denoise, model, numpy
install) run test_install.py ;;
torch)
    find_torch || skip "there is no PyTorch (Debian: apt-get install python3-torch): skipped"
    run 'test_[cdemt]*.py' ;; # compile, declared, denoise, equal, examples, model, torch
*) echo "test_python: no part is called '$what'" >&2; exit 2 ;;
esac
