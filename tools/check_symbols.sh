#!/bin/bash
# check_symbols.sh BUILD [ROOT]: what libsnls.so exports is what include/snls declares with SNLS_API, no more, no less;
# and every global symbol of libsnls.a begins with snls_, so that a static link meets no stranger's names.
set -u
build=${1:?build folder}
root=${2:-$(dirname "$0")/..}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

for header in "$root"/include/snls/*.h; do
    perl -0777 -ne 's{/\*.*?\*/|//[^\n]*}{ }gs; s/\\\n/ /g; s/^[ \t]*#.*$//mg;
        print "$1\n" while /\bSNLS_API\b[^;(]*?\b(\w+)\s*\(/g' "$header"
done | sort -u >"$work/declared"
nm -D --defined-only "$build/libsnls.so" >"$work/nm" || exit 2
# the linker's own, and a sanitizer's
awk '{ print $NF }' "$work/nm" | sed 's/@.*//' | grep -vE '^(_init|_fini|_end|_edata|__bss_start|__odr_asan.*)$' | sort -u >"$work/exported"

status=0
if ! cmp -s "$work/declared" "$work/exported"; then
    comm -23 "$work/declared" "$work/exported" | sed 's/^/declared, not exported: /'
    comm -13 "$work/declared" "$work/exported" | sed 's/^/exported, not declared: /'
    status=1
fi
if [ -f "$build/libsnls.a" ]; then
    strangers=$(nm -g --defined-only "$build/libsnls.a" 2>/dev/null | awk 'NF == 3 { print $3 }' |
        grep -vE '^(snls_|__odr_asan|_?_?(asan|ubsan))' | sort -u)
    if [ -n "$strangers" ]; then echo "global in libsnls.a without the prefix snls_:" $strangers; status=1; fi
fi
[ $status = 0 ] && echo "check_symbols: ok, $(wc -l <"$work/declared") functions"
exit $status
