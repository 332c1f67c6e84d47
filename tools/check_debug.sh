#!/bin/bash
# check_debug.sh [ROOT]: the loops that are to be written out compile without a warning where nothing is optimised, as in a Debug build.
set -u
root=${1:-$(dirname "$0")/..}
compiler=${CC:-cc}
case $("$compiler" -dumpmachine) in
x86_64*) file=dsp_avx2.c flags="-mavx2 -mfma -mf16c" ;;
aarch64*) file=dsp_neon.c flags= ;;
*) echo "skipped: this machine has no such loops"; exit 77 ;;
esac
# shellcheck disable=SC2086 # flags are words
"$compiler" -std=c11 -O0 -Wall -Wextra -Werror "-I$root/include" "-I$root/src" $flags -S -o /dev/null "$root/src/simd/$file" || exit 1
echo "check_debug: ok"
