#!/bin/sh
# demo.sh BUILD_DIR: makes a clip with known motion, aligns it with flow that is wrong by two pixels, and shows how far
# plain flow, unshifted search and shifted search get. The work is done by `snls demo`; the picture is left in BUILD_DIR.
set -eu
build=${1:?usage: demo.sh BUILD_DIR}
snls=$build/snls
[ -x "$snls" ] || { echo "demo.sh: $snls is not there; build first" >&2; exit 1; }
exec "$snls" demo -y --out "$build/demo"
