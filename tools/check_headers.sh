#!/bin/bash
# check_headers.sh [ROOT]: each public header compiles alone, in C99, C11 and C++17, with every compiler that is here,
# and snls.h includes it.
set -u
root=${1:-$(dirname "$0")/..}
status=0
count=0

compile() # COMPILER LANGUAGE STANDARD HEADER
{
    command -v "$1" >/dev/null || return 0
    count=$((count + 1))
    printf '#include <snls/%s>\n#include <snls/%s>\n' "$4" "$4" |
        "$1" -x "$2" "-std=$3" -pedantic -Wall -Wextra -Wshadow -Wundef -Werror -fsyntax-only "-I$root/include" - ||
        { echo "snls/$4 does not compile with $1 as $3"; status=1; }
}

for path in "$root"/include/snls/*.h; do
    header=${path##*/}
    for compiler in "${CC:-cc}" clang; do
        compile "$compiler" c c99 "$header"
        compile "$compiler" c c11 "$header"
    done
    for compiler in "${CXX:-c++}" clang++; do compile "$compiler" c++ c++17 "$header"; done
    if [ "$header" != snls.h ] && ! grep -q "include <snls/$header>" "$root/include/snls/snls.h"; then
        echo "snls.h does not include snls/$header"
        status=1
    fi
done
[ $count -gt 0 ] || { echo "check_headers: no compiler found"; exit 1; }
[ $status = 0 ] && echo "check_headers: ok, $count compilations"
exit $status
