#!/bin/bash
# check_install.sh BUILD [ROOT]: installs into a folder, moves that folder, and uses what lies there as a stranger would:
# pkg-config and find_package, shared and static, and the command line; and configures the tree as part of another project.
set -u
build=$(cd "${1:?build folder}" && pwd) || exit 2
root=$(cd "${2:-$(dirname "$0")/..}" && pwd) || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
cc=${CC:-cc}
fail() { echo "check_install: $1"; cat "$log"; exit 1; }

cmake --install "$build" --prefix "$work/first" >"$log" 2>&1 || fail "cmake --install failed"
mv "$work/first" "$work/prefix"
prefix=$work/prefix
pc=$(find "$prefix" -name snls.pc)
lib=$(dirname "$(dirname "$pc")")
# Before 1.0 a minor version may change structs, and has a soname of its own: 0 is that of 0.1.
of_version() { sed -n "s/^#define SNLS_VERSION_$1 //p" "$root/include/snls/types.h"; }
soname=$(readelf -d "$lib/libsnls.so" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
[ "$(of_version MAJOR)" != 0 ] || [ "$soname" = "libsnls.so.$(($(of_version MINOR) - 1))" ] || fail "the SONAME of version 0.$(of_version MINOR) is $soname"
[ -e "$lib/$soname" ] || fail "there is no $soname"
for file in docs/embedding.md bindings/python/snls/_lib.py; do
    grep -qF "$soname" "$root/$file" || fail "$file does not name $soname"
done
find "$prefix" -name LICENSE | grep -q . || fail "the licence is not installed"
for header in "$root"/include/snls/*.h; do
    cmp -s "$header" "$prefix/include/snls/${header##*/}" || fail "${header##*/} is not installed"
done

run() { "$@" >>"$log" 2>&1 || fail "failed: $*"; }
if command -v pkg-config >/dev/null; then
    export PKG_CONFIG_PATH=$(dirname "$pc")
    run $cc "$root/tests/consumer/main.c" -o "$work/shared" $(pkg-config --cflags --libs snls)
    run env LD_LIBRARY_PATH="$lib" "$work/shared"
    cp -r "$prefix" "$work/only_static"
    find "$work/only_static" -name 'libsnls.so*' -delete
    export PKG_CONFIG_PATH=$(dirname "$(find "$work/only_static" -name snls.pc)")
    words=$(pkg-config --static --cflags --libs snls)
    run $cc "$root/tests/consumer/main.c" -o "$work/static" $words
    # libpng.so names zlib by itself, libpng.a (-static) does not
    [[ $words != *-lpng* || $words == *-lpng*-lz* ]] || fail "pkg-config --static names no zlib after libpng: $words"
    rm -rf "$work/only_static"
    run "$work/static"
fi

run cmake -S "$root/tests/consumer" -B "$work/consumer" "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_C_COMPILER=$cc"
run cmake --build "$work/consumer"
run "$work/consumer/shared"
run "$work/consumer/static"
if [ -x "$build/snls" ]; then
    (cd / && "$prefix/bin/snls" --help) >>"$log" 2>&1 || fail "the installed command line does not run"
    ldd "$prefix/bin/snls" | grep -q "$soname => $prefix" || ldd "$prefix/bin/snls" | grep -q "$soname => .*/prefix/" ||
        fail "the installed command line does not use the installed library"
    # A plugin that is there, and needs a library that is not: that one is named.
    echo 'int gone(void); int gone(void) { return 1; }' >"$work/gone.c"
    echo 'int gone(void); int plugin(void); int plugin(void) { return gone(); }' >"$work/plugin.c"
    run $cc -shared -fPIC "$work/gone.c" -o "$work/libgone.so"
    rm -f "$lib/libsnls_ffmpeg.so"
    run $cc -shared -fPIC "$work/plugin.c" -o "$lib/libsnls_ffmpeg.so" -L"$work" -lgone
    rm "$work/libgone.so"
    env -u SNLS_FFMPEG_LIBRARY "$prefix/bin/snls" info >"$log" 2>&1
    grep -q 'libgone\.so' "$log" || fail "a plugin that lacks a library is said to be missing itself"
fi

# In another project: the library alone, no tests, nothing said about how the whole is built; folders may be given as whole paths.
mkdir "$work/outer"
cp "$root/tests/consumer/main.c" "$work/outer"
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(outer LANGUAGES C)' "add_subdirectory($root snls)" 'add_executable(outer main.c)' \
    'target_link_libraries(outer PRIVATE snls::snls)' >"$work/outer/CMakeLists.txt"
run cmake -S "$work/outer" -B "$work/outer/build" "-DCMAKE_C_COMPILER=$cc" -DSNLS_WITH_CUDA=OFF "-DCMAKE_INSTALL_PREFIX=$work/to" "-DCMAKE_INSTALL_LIBDIR=$work/to/lib64" -DBUILD_SHARED_LIBS=OFF
grep -q 'BUILD_SHARED_LIBS=OFF changes nothing' "$log" || fail "BUILD_SHARED_LIBS=OFF is ignored without a word"
grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$work/outer/build/CMakeCache.txt" || fail "a project that adds the tree gets another build type"
cmake --build "$work/outer/build" --target help >"$log"
grep -q 'snls_shared' "$log" || fail "a project that adds the tree has no library"
grep -qE ' (test_|snls$)' "$log" && fail "a project that adds the tree builds tests and the command line"
run cmake -S "$work/outer" -B "$work/outer/unity" "-DCMAKE_C_COMPILER=$cc" -DSNLS_WITH_CUDA=OFF -DCMAKE_UNITY_BUILD=ON
find "$work/outer/unity/snls" -name 'unity_*.c' | grep -q . && fail "a project that builds many files as one does so with those of the tree, whose static names are the same"
grep -q libsnls "$work/outer/build/snls/cmake_install.cmake" && fail "a project that adds the tree installs it"
run cmake -S "$work/outer" -B "$work/outer/build" -DSNLS_INSTALL=ON
grep -q libsnls "$work/outer/build/snls/cmake_install.cmake" || fail "with SNLS_INSTALL=ON a project that adds the tree does not install it"
grep -qxF 'libdir=${prefix}/lib64' "$work/outer/build/snls/snls.pc" || fail "snls.pc has another folder than the one that was given as a whole path"
echo "check_install: ok"
