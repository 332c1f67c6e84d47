#!/bin/bash
# ctest: label=fast timeout=300
# test_dvdnet.sh BUILD SOURCE: a network that somebody else trained does here about what it does there. Needs the weights and a
# clip of ../shared/data; skipped without.
set -u
build=$1
data=$2/../shared/data
[ -x "$build/snls" ] && [ -d "$data/weights" ] && [ -d "$data/test/davis_blackswan" ] && "$build/snls" --version | grep -q 'jpeg yes' || { echo "skipped: no weights of DVDnet, no clip or no JPEG here"; exit 77; }

psnr() # of the mean row
{
    "$build/snls" eval --data "$data/test" --only davis_blackswan --frames 3 --crop 96 --sigma 50 "$@" --json | sed 's/.*"clip": "mean"[^}]*"psnr": \([0-9.]*\).*/\1/'
}
got=$(psnr --model "$data/weights")
echo "PSNR $got"
# 14.2 dB of noise become 30.1; a wrong layer, channel order or clamp costs decibels
awk -v p="$got" 'BEGIN { exit !(p > 29.5 && p < 30.7) }' || { echo "expected 29.5 to 30.7 dB"; exit 1; }
"$build/snls" eval --data "$data/test" --only davis_blackswan --frames 1 --crop 32 --sigma 50 --model /nowhere 2>/dev/null
[ $? = 3 ] || { echo "weights that are not there must be exit code 3"; exit 1; }
