# cli.sh: how the tests of the command line begin. A test with the arguments BUILD SOURCE says: . "$2/tests/cli.sh"
# Then $snls is the program, the current folder is empty and goes away at the end, and `bad` counts a failure in $failed.
set -u
snls=$1/snls
skip() { echo "skipped: $*"; exit 77; }
[ -x "$snls" ] || skip "$snls was not built"
has() { "$snls" --version | grep -q "[ ,]$1 yes"; } # png, jpeg, lapack: was it built with that?
work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
bad() { failed=$((failed + 1)); echo "FAIL $*"; }
