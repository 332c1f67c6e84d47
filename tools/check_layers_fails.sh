#!/bin/bash
# check_layers_fails.sh [ROOT]: plants one breach after the other in a tree made for it; check_layers.sh must refuse each,
# and must refuse one in a copy of the real tree.
set -u
root=$(cd "${1:-$(dirname "$0")/..}" && pwd) || exit 2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy"/tree/{include/snls,src/{base,simd,op,ref,cpu,cuda,flow,metrics,io,video,pipeline},cli,bench,examples}
touch "$copy"/tree/src/{base,simd,op,cpu,flow}/planted.h
check() { bash "$root/tools/check_layers.sh" "$copy/tree" >"$copy/log" 2>&1; }

failures=0
plant() # yes|no FILE TEXT: is the text refused in this file?
{
    printf '%s\n' "$3" >"$copy/tree/$2"
    if check; then got=no; else got=yes; fi
    if [ $got != "$1" ]; then
        echo "refused: $got, expected: $1, for '$3' in $2"; cat "$copy/log"
        failures=$((failures + 1))
    fi
    rm "$copy/tree/$2"
}

if ! check; then echo "a tree without breach is refused:"; cat "$copy/log"; exit 1; fi

plant yes src/base/planted.c '#include "op/planted.h"'
plant yes src/base/planted.c '#include <snls/ops.h>'
plant yes src/base/planted.c '#include "../op/planted.h"'
plant yes src/simd/planted.c '#include "base/planted.h"'
plant yes src/simd/planted.c '#include <snls/types.h>'
plant yes src/op/planted.c   '  #  include "simd/planted.h"'
plant yes src/op/planted.c   '#include <cpu/planted.h>'
plant yes src/op/planted.c   '#include <snls/snls.h>'
plant yes src/ref/planted.c  '#include "cpu/planted.h"'
plant yes src/cpu/planted.c  '#include "snls/io.h"'
plant yes src/cpu/planted.c  '#include <immintrin.h>'
plant yes src/io/planted.c   '#include "op/planted.h"'
plant yes src/cuda/planted.cu '#include "cpu/planted.h"'
plant yes src/cpu/planted.c  '#include <cuda_runtime.h>'
plant yes src/cpu/planted.c  '#include <dlfcn.h>'
plant yes src/video/planted.c '#include <libavcodec/avcodec.h>'
plant yes src/video/planted.c '#include <snls/denoise.h>'
plant no  src/video/ffmpeg_planted.c '#include <libavcodec/avcodec.h>'
plant yes src/cuda/planted.cu 'void f(void) { printf("x"); }'
plant yes src/metrics/planted.c '#include "flow/planted.h"'
plant yes src/flow/planted.c '#include "op/planted.h"'
plant yes src/simd/planted.c '#include "flow/planted.h"'
plant yes src/op/planted.c   '#include <png.h>'
plant yes cli/planted.c      '#include "base/planted.h"'
plant yes bench/planted.c    '#include "op/planted.h"'
plant yes examples/planted.c '#include "op/planted.h"'
plant yes src/op/planted.c   'void f(void) { printf("x"); }'
plant yes src/op/planted.c   'void f(void) { fputs("x", stderr); }'
plant yes src/io/planted.c   'void f(void) { exit (1); }'
plant yes src/op/planted.c   'void f(void) { abort(); }'
plant yes src/cpu/planted.c  'void f(void) { system("ls"); }'
plant yes src/base/planted.c 'char *f(void) { return getenv("X"); }'
plant yes src/op/planted.c   'void *f(void) { return fopen("x", "r"); }'

plant no src/cpu/planted.c   '#include "op/planted.h"
#include "simd/planted.h"
#include "planted.h"'
plant no src/op/planted.c    '/* printf( and exit(1) in a comment */ void f(void) { snprintf(a, 1, "abort()"); ctx->exit(1); }'
plant no src/io/planted.c    'void *f(void) { return fopen("x", "r"); }'
plant no cli/planted.c       '#include <snls/snls.h>
int main(void) { printf("x"); }'

rm -r "$copy/tree"/{src,cli,bench,examples}
cp -r "$root"/{src,cli,bench,examples} "$copy/tree/"
plant yes src/simd/planted.c '#include "op/op.h"'

if [ $failures -gt 0 ]; then exit 1; fi
echo "check_layers_fails: ok"
