#!/bin/bash
# Plants faults, one at a time, in copies of src/cuda, and tells which test catches each. Needs a GPU, nvcc and a finished build.
#   tools/plant_faults_cuda.sh BUILD [ARCH [FIRST [LAST]]]    ARCH as nvcc's -arch takes it, sm_90 where it is not given; numbers of the list
# Every fault recompiles one .cu file, all of them side by side, and links it with the other objects of BUILD.
# Exit 1 when a fault survives.
set -u
source=$(cd "$(dirname "$0")/.." && pwd) || exit 2
build=$(cd "$1" && pwd) || exit 2
arch=${2:-sm_90} first=${3:-1} last=${4:-${3:-999}}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

# name | file compiled | file changed | text | planted text | test and its arguments
faults=$(cat <<'LIST'
low part of the query left out|warp|warp_score.h|warp_mma(sum[i], q->low[step], high[i][0], high[i][1]);||test_tile --backend cuda --products 1 60
last column of a window left out|warp|warp_select.h|min((int)t->p->c.m.side - first, CELLS)|min((int)t->p->c.m.side - first - 1, CELLS)|test_tile --backend cuda --products 1 60
ties broken by the larger number|warp|warp_select.h|ids[32 * others + to_other] < id))|ids[32 * others + to_other] > id))|test_tile --backend cuda --products 1 60
scores that are not finite kept|warp|warp_select.h|if (!isfinite(value)) best->broken = 1;||test_tile --backend cuda --products 1 60
a key pixel gets its neighbour's share|match_grad|match_patch.h|snls_cuda_axpy(&to_below[i + 1], s->w[1][1], by_key)|snls_cuda_axpy(&to_below[i], s->w[1][1], by_key)|test_tile --backend cuda 1 150
query pixels mirrored one too far|match_grad|match_patch.h|i < n ? i : 2 * (n - 1) - i|i < n ? i : 2 * (n - 1) - i - 1|test_tile --backend cuda 1 150
interpolated l2 without its correction|tile|tile_select.h|value = less - score;|value = -score;|test_tile --backend cuda 1 60
a row of the patch left out|tile|tile_score.h|for (int i = 0; i < ps; i++) sum += at[|for (int i = 0; i < ps - 1; i++) sum += at[|test_tile --backend cuda 1 60
rows between pixels read from the wrong taps|few|few.cu|+ (odd ? w->next[0] : 0)||test_tile --backend cuda --few 1 60
lists of a query's lanes joined by score alone|few|few_list.h|(other == order && whose < id)|false|test_tile --backend cuda --few 1 60
scores that are not finite kept in small windows|few|few.cu|if (again) few_again(&p.c, q, PARTS, again, NULL);||test_tile --backend cuda --few 1 60
a second row of cells with the first one's fraction|few_pixel|few_pixel.h|w->part[0][HALF]|w->part[0][0]|test_tile --backend cuda --few 1 60
slopes beyond the frame from the wrong side|few_grad|few_grad.cu|return fraction == 0 && (|return fraction < 0 && (|test_tile --backend cuda --few 1 60
a pixel gets its neighbour's share|few_grad|few_patch.h|few_times(fx, row[i > 0 ? i - 1 : 0])|few_times(fx, row[i < 3 ? i : 2])|test_tile --backend cuda --few 1 60
a gradient by value without the weight|few_gather|few_gather.cu|share[below][i] = few_times(tie.weight, g)|share[below][i] = few_times(1, g)|test_aggregate --backend cuda --few 1 20
LIST
)

# plant NUMBER FILE TEXT PLANTED UNIT: a library with this one fault
plant() {
    local tree=$work/$1 objects
    mkdir -p "$tree" && cp -r "$source/src" "$source/include" "$tree/" || return 2
    python3 - "$tree/src/cuda/$2" "$3" "$4" <<'PLANT' || return 2
import sys
path, text, planted = sys.argv[1:]
content = open(path).read()
if text not in content:
    sys.exit(f"{path} no longer holds: {text}")
open(path, "w").write(content.replace(text, planted, 1))
PLANT
    nvcc -arch="$arch" -std=c++20 -fmad=false -O3 -I"$tree/include" -I"$tree/src" -Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off \
        -c "$tree/src/cuda/$5.cu" -o "$tree/fault.o" >"$tree/log" 2>&1 || return 2
    objects=$(find "$build/CMakeFiles/snls_cuda.dir" -name '*.o' ! -name "$5.cu.o")
    # shellcheck disable=SC2086 # a list of files
    nvcc -shared -arch="$arch" -cudart static -o "$tree/libsnls_cuda.so" "$tree/fault.o" $objects -Xlinker --version-script="$source/cmake/cuda.map" >>"$tree/log" 2>&1
}

number=0
while IFS='|' read -r name unit file text planted test; do
    number=$((number + 1))
    if [ $number -lt "$first" ] || [ $number -gt "$last" ]; then continue; fi
    plant $number "$file" "$text" "$planted" "$unit" &
done <<<"$faults"
wait
number=0 survived=0
while IFS='|' read -r name unit file text planted test; do
    number=$((number + 1))
    if [ $number -lt "$first" ] || [ $number -gt "$last" ]; then continue; fi
    library=$work/$number/libsnls_cuda.so
    # shellcheck disable=SC2086 # the test's arguments are words
    if [ ! -f "$library" ]; then
        echo "$number: $name: not built"; tail -n 3 "$work/$number/log"; survived=1
    elif SNLS_CUDA_LIBRARY=$library timeout 120 "$build/tests/"$test >"$work/log" 2>&1; then
        echo "$number: $name: SURVIVED ($test)"; survived=1
    else
        echo "$number: $name: caught by $test ($(tail -n 1 "$work/log"))"
    fi
done <<<"$faults"
exit $survived
