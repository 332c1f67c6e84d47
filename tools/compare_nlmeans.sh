#!/bin/bash
# compare_nlmeans.sh BUILD DATA [NAME...]: ffmpeg's nlmeans beside `snls denoise` on the same noisy 8-bit pictures, PSNR and seconds.
# DATA: a folder of clips, of each the middle 240x240 pixels of the first 10 frames; NAME: only clips whose name holds one.
# nlmeans gets the strength that is best for each clip, found by trying; snls is told the noise, no more.
set -eu
snls=$(realpath "$1")/snls
data=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { ffmpeg -v error -nostdin -y "$@"; }
psnr() { "$snls" metrics "$1" "$2" --json 2>/dev/null | tr -d '\n ' | sed -E 's/.*"psnr":\{"mean":([0-9.]+).*/\1/'; }
seconds() { local t0=$EPOCHREALTIME; "$@" >/dev/null; echo "$EPOCHREALTIME $t0" | awk '{ printf "%.2f", $1 - $2 }'; }

printf '%-24s %5s %8s %8s %6s %8s   %s\n' clip sigma noisy nlmeans s fast 'seconds of nlmeans, of snls'
for clip in "$data"/*; do
    name=$(basename "$clip")
    wanted=$(($# == 0))
    for word in "$@"; do [[ $name == *"$word"* ]] && wanted=1; done
    [ $wanted = 1 ] || continue
    input=()
    [ -d "$clip" ] && input=(-start_number 0 -i "$clip/%05d.jpg") || input=(-i "$clip")
    rm -rf "$work"/*
    mkdir "$work/clean"
    run "${input[@]}" -vf crop=240:240,format=rgb24 -frames:v 10 "$work/clean/%05d.png"
    for sigma in 20 50; do
        rm -rf "$work"/noisy "$work"/out* && mkdir "$work/noisy"
        "$snls" noise "$work/clean" "$work/noisy/" --sigma $sigma
        best=0 strength= took=
        for s in 8 12 16 20 30; do
            mkdir -p "$work/out"
            t=$(seconds run -start_number 0 -i "$work/noisy/%05d.png" -vf "format=gbrp,nlmeans=s=$s,format=rgb24" "$work/out/%05d.png")
            p=$(psnr "$work/clean" "$work/out")
            if awk "BEGIN { exit !($p > $best) }"; then best=$p strength=$s took=$t; fi
        done
        t=$(seconds "$snls" denoise "$work/noisy" "$work/ours/" --sigma $sigma --preset fast -y)
        printf '%-24s %5d %8.2f %8.2f %6s %8.2f   %s %s\n' "$name" $sigma "$(psnr "$work/clean" "$work/noisy")" "$best" "$strength" \
            "$(psnr "$work/clean" "$work/ours")" "$took" "$t"
        rm -rf "$work/ours"
    done
done
