#!/usr/bin/env bash
# test_oracle.sh BUILD SOURCE [CASES [SEED [BACKEND]]]: the command line against the NumPy implementation of docs/operators.md, and wrong inputs.
# Needs a Python that has NumPy (SNLS_PYTHON, or python3).
# ctest: label=fast timeout=300
# ctest: name=many label=slow timeout=1800 args=72 50000
# ctest: name=cuda label=cuda timeout=300 args=60 1 cuda
set -u
snls=$1/snls
compare=$2/tools/oracle/compare.py
cases=${3:-40}
seed=${4:-1}
backends=${5:-ref cpu}
python=${SNLS_PYTHON:-python3}
if ! "$python" -c 'import numpy' 2> /dev/null; then
    echo "skipped: no Python with NumPy (python3-numpy); the comparison with NumPy was not made"
    exit 77
fi
if [ ! -x "$snls" ]; then
    echo "skipped: $snls was not built"
    exit 77
fi
if [ "$backends" = cuda ] && ! "$snls" info | grep -q '^backend cuda *available'; then
    echo "skipped: $("$snls" info | grep '^backend cuda')"
    exit 77
fi
export OMP_WAIT_POLICY=passive
status=0
for backend in $backends; do
    "$python" "$compare" --snls "$snls" --backend $backend --cases "$cases" --seed "$seed" || status=1
done
[ $# -gt 2 ] || "$python" "$compare" --snls "$snls" --bad || status=1
exit $status
