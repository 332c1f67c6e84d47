#!/bin/bash
# Builds the library and its tests for AArch64 on another machine and runs those of the operators under qemu, at every level: c, neon, bf16. Slow, and says nothing of speed; not part of
# `make test`. Installs a cross compiler and qemu through apt-get where they are missing.
#   tools/test_aarch64.sh [BUILD [TEST...]]        build-aarch64; a test with its arguments is one word: "test_ops --op search 1 20"
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source/build-aarch64}
shift || true
"$source/tools/install_deps.sh" build aarch64
cmake -S "$source" -B "$build" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_FIND_ROOT_PATH=/usr/aarch64-linux-gnu -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
    -DSNLS_BUILD_CLI=OFF -DSNLS_WITH_CUDA=OFF -DSNLS_WITH_DNNL=OFF -DSNLS_WITH_FFMPEG=OFF -DSNLS_WITH_LAPACK=OFF -DSNLS_WITH_JANSSON=OFF -DSNLS_WITH_PNG=OFF -DSNLS_WITH_JPEG=OFF >/dev/null
cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)" >"$build/log" 2>&1 || { grep -E 'error' "$build/log"; exit 1; }

if [ $# -eq 0 ]; then
    set -- "test_close --worst 1 4" "test_close --below 1 8" "test_close 1 4" test_corners "test_tile 1 4" "test_tile --frames 1 3" "test_tile --steps 1 3" "test_tile --stacks 1 2" "test_bands 1 6" test_dsp test_patch test_settle \
        test_group test_softmax test_grad "test_ops 1 6" test_spec test_spec_match test_spec_aggregate
fi
failed=0
for words in "$@"; do
    read -ra test <<<"$words"
    echo "== $words"
    qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu "$build/tests/${test[0]}" "${test[@]:1}" >"$build/log" 2>&1 || { failed=1; head -n 6 "$build/log"; }
    tail -n 1 "$build/log"
done
exit $failed
