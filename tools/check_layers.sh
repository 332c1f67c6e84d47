#!/bin/bash
# check_layers.sh [ROOT]: who may include whom, and what the library may not do. No arrow of the table points back.
# Prints every breach and exits 1. docs/architecture.md explains the layers.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 2
api="snls/types.h snls/context.h snls/ops.h snls/options.h"

# layer -> what it may include of ours: folders of src/, headers of include/
may_include()
{
    case $1 in
    src/base) echo "base snls/types.h snls/context.h snls/options.h" ;;
    src/simd) echo "simd" ;;
    src/op)   echo "op base $api" ;;
    src/ref)  echo "ref op base $api snls/io.h" ;;
    src/cpu)  echo "cpu op simd base $api" ;;
    src/cuda) echo "cuda op base $api" ;;
    src/flow) echo "flow simd base snls/types.h snls/context.h snls/options.h snls/flow.h" ;;
    src/denoise) echo "denoise op simd base $api snls/flow.h snls/denoise.h" ;;
    src/metrics) echo "metrics base snls/types.h snls/context.h snls/metrics.h" ;;
    src/video) echo "video io base snls/types.h snls/context.h snls/io.h snls/video.h" ;;
    src/pipeline) echo "pipeline video io base snls/types.h snls/context.h snls/video.h snls/denoise.h snls/model.h snls/pipeline.h" ;;
    src/io)   echo "io base snls/types.h snls/context.h snls/io.h snls/safetensors.h" ;;
    src/nn)   echo "nn simd base $api" ;;
    src/nn_cuda) echo "nn_cuda nn model cuda base $api snls/train.h" ;;
    src/model) echo "model nn op base $api snls/flow.h snls/denoise.h snls/safetensors.h snls/model.h snls/train.h" ;;
    cli)      echo "cli bench $api snls/flow.h snls/denoise.h snls/metrics.h snls/io.h snls/video.h snls/pipeline.h snls/safetensors.h snls/model.h snls/train.h snls/snls.h" ;;
    bench)    echo "bench $api snls/flow.h snls/denoise.h snls/metrics.h snls/io.h snls/video.h snls/pipeline.h snls/safetensors.h snls/model.h snls/train.h snls/snls.h" ;;
    examples) echo "$api snls/flow.h snls/denoise.h snls/metrics.h snls/io.h snls/video.h snls/pipeline.h snls/safetensors.h snls/model.h snls/train.h snls/snls.h" ;;
    include/snls) echo "$api snls/flow.h snls/denoise.h snls/metrics.h snls/io.h snls/video.h snls/pipeline.h snls/safetensors.h snls/model.h snls/train.h" ;;
    *)        return 1 ;;
    esac
}

# system headers that only some files may see
may_use_system()
{
    case $2 in
    cuda*.h)   [[ $1 == src/cuda/* || $1 == src/nn_cuda/* ]] ;;
    dlfcn.h)   [[ $1 == src/base/load.c ]] ;;
    png.h | jpeglib.h) [[ $1 == src/io/* ]] ;;
    libav*)    [[ $1 == src/video/ffmpeg* ]] ;;
    jansson.h) [[ $1 == cli/* || $1 == bench/* || $1 == src/io/safetensors* || $1 == src/model/manifest.c ]] ;;
    oneapi/dnnl/dnnl.h) [[ $1 == src/nn/dnnl* ]] ;;
    cblas.h)   [[ $1 == src/nn/* ]] ;;
    fcntl.h)   [[ $1 == src/io/* || $1 == src/video/ffmpeg_input.c || $1 == src/video/ffmpeg_whole.c || $1 == src/pipeline/journal.c || $1 == src/*/threads.c || $1 == cli/* ]] ;;
    *intrin.h | arm_neon.h) [[ $1 == src/simd/* ]] ;;
    *)         true ;;
    esac
}

# functions of the C library that only some files of src/ may call; the library never prints, exits or starts a program
never='v?f?w?printf|puts|putchar|perror|psignal|exit|_exit|_Exit|quick_exit|abort|atexit|system|popen|fork|exec[lv]p?e?|setenv|putenv|signal|sigaction|scanf|gets'
files='fopen|freopen|fdopen|openat|creat|opendir|tmpfile|mkstemp|remove|unlink|rename'
may_call()
{
    case $2 in
    getenv | secure_getenv) [[ $1 == src/op/context.c || $1 == src/video/load.c || $1 == src/nn/load_cuda.c ]] ;;
    *) [[ "$2" =~ ^($files)$ ]] && [[ $1 == src/io/* || $1 == src/video/* || $1 == src/pipeline/journal.c || $1 == src/base/cgroup.c ]] ;;
    esac
}

breaches=0
breach() { echo "$1"; breaches=$((breaches + 1)); }

# What files include and call, comments left out, of calls string literals too; lines stay where they are:
#   include FILE 0 <name> or "name"
#   call FILE LINE name          of files of the library
# One process for all files: one for each took most of the time.
list_uses()
{
    perl -e '
        my ($calls, @files) = @ARGV;
        for my $file (@files) {
            local $/;
            open my $in, "<", $file or die "$file: $!\n";
            my $text = <$in>;
            my $literal = qr{"(?:\\.|[^"\\\n])*"|\x27(?:\\.|[^\x27\\\n])*\x27};
            $text =~ s{(/\*.*?\*/|//[^\n]*)|($literal)}{defined $1 ? " " . $1 =~ s/[^\n]//gr : $2}gse;
            while ($text =~ /^[ \t]*#[ \t]*include[ \t]*([<"][^>"\n]*[>"])/mg) { print "include $file 0 $1\n" }
            next unless $file =~ m{^src/};
            $text =~ s{$literal}{""}gs;
            my $line = 0;
            for (split /\n/, $text, -1) {
                $line++;
                while (/(?<![\w.>])($calls)\s*\(/g) { print "call $file $line $1\n" }
                while (/\b(stdout|stderr|stdin)\b/g) { print "call $file $line $1\n" }
            }
        }' "$never|$files|getenv|secure_getenv" "$@"
}

check_include() # FILE LAYER <name> or "name"
{
    local name=${3:1:-1} target=
    case $3 in
    *..*)               breach "$1: includes $3, a path with .."; return ;;
    ?snls/*)            target=$name ;;
    \"*/*)              target=${name%/*}; [ -f "src/$name" ] || { breach "$1: includes $3, which is not in src/"; return; } ;;
    \"*)                if [ -f "$2/$name" ]; then return
                        elif [ "$2" = cli ] && [ -f "bench/$name" ]; then return
                        else breach "$1: includes $3, which is not in $2/"; return; fi ;;
    *)                  if [ -f "src/$name" ]; then breach "$1: includes $3, ours are written in quotes"
                        elif ! may_use_system "$1" "$name"; then breach "$1: may not include $3"; fi
                        return ;;
    esac
    [[ " $(may_include "$2") " == *" $target "* ]] || breach "$1: $2 may not include $3"
}

shopt -s nullglob
for folder in src/*/; do
    may_include "${folder%/}" >/dev/null || breach "$folder has no line in tools/check_layers.sh"
done
while read -r use file line name; do
    layer=${file%/*}
    may_include "$layer" >/dev/null || continue
    if [ "$use" = call ]; then
        may_call "$file" "$name" || breach "$file:$line: the library may not use $name here"
    elif [ "$file" != include/snls/snls.h ]; then
        check_include "$file" "$layer" "$name"
    fi
done < <(list_uses include/snls/*.h src/*/*.[ch] src/*/*.cu src/*/*.cuh cli/*.[ch] bench/*.[ch] examples/*.[ch])
wait $! || breach "the files could not be read"
for file in src/*.[ch]; do breach "$file lies in no layer"; done

if [ $breaches -gt 0 ]; then echo "check_layers: $breaches breaches"; exit 1; fi
echo "check_layers: ok"
