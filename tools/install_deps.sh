#!/bin/bash
# install_deps.sh GROUP...: installs through apt-get what is missing of the groups build, test, python, torch, clang, format, aarch64.
# Does nothing, quickly, where everything is present. SNLS_NO_DEPS=1 in the environment turns it off.
set -u
[ "${SNLS_NO_DEPS:-0}" = 1 ] && exit 0

compiles()   { echo '#include <stdio.h>
int main(void) { return 0; }' | "$@" -o /dev/null - 2>/dev/null; }
has_numpy()  { "$1" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("numpy"))' 2>/dev/null; }
has_torch()  { "$1" -c 'import importlib.util as u, sys; sys.exit(not (u.find_spec("numpy") and u.find_spec("torch")))' 2>/dev/null; }
has_deb()    { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Is what this package is wanted for here, from wherever it came?
present()
{
    case $1 in
    build-essential) command -v make && compiles cc -x c && compiles c++ -x c++ ;;
    libjansson-dev)  pkg-config --exists jansson ;;
    libpng-dev)      pkg-config --exists libpng ;;
    libjpeg-dev)     pkg-config --exists libjpeg ;;
    libdnnl-dev)     [ -f /usr/include/oneapi/dnnl/dnnl.h ] ;;
    liblapack-dev)   pkg-config --exists lapack ;;
    libopenblas-dev) pkg-config --exists openblas ;;
    libavformat-dev) pkg-config --exists libavformat libavcodec libavutil ;;
    libavcodec-dev | libavutil-dev) pkg-config --exists "${1%-dev}" ;;
    python3-numpy)   has_numpy python3 || has_numpy /usr/bin/python3 ;;
    python3-torch)   has_torch python3 || has_torch /usr/bin/python3 ;;
    python3-venv)    /usr/bin/python3 -c 'import ensurepip' ;;
    clang)           compiles clang -x c ;;
    libomp-dev)      compiles clang -x c -fopenmp ;;
    *)               command -v "$1" ;; # a package with the name of its program
    esac >/dev/null 2>&1 || has_deb "$1"
}

packages=
for group in "${@:-build}"; do
    case $group in
    build)  packages+=" build-essential cmake pkg-config libjansson-dev libpng-dev libjpeg-dev liblapack-dev libopenblas-dev libdnnl-dev libavformat-dev libavcodec-dev libavutil-dev" ;;
    test)   packages+=" python3 python3-numpy python3-venv perl ffmpeg" ;;
    python) packages+=" python3 python3-numpy python3-venv" ;;
    torch)  packages+=" python3-torch" ;;
    clang)  packages+=" clang libomp-dev" ;;
    format) packages+=" clang-format" ;;
    aarch64) packages+=" gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" ;;
    *) echo "install_deps.sh: no group is called '$group' (build, test, python, torch, clang, format, aarch64)" >&2; exit 2 ;;
    esac
done

missing=
for package in $packages; do present "$package" || missing+=" $package"; done
missing=${missing# }
[ -z "$missing" ] && exit 0

give_up() { echo "snls needs what these Debian packages hold: $missing - $1 (SNLS_NO_DEPS=1 goes on without)." >&2; exit 1; }

if ! command -v apt-get >/dev/null; then
    # Another system: only what the build cannot do without is an error.
    optional=' libavformat-dev libavcodec-dev libavutil-dev ffmpeg libpng-dev libjpeg-dev liblapack-dev libopenblas-dev libdnnl-dev python3 python3-numpy python3-venv python3-torch perl libomp-dev '
    for package in $missing; do
        [[ $optional == *" $package "* ]] || give_up "this system has no apt-get, please install their like"
    done
    exit 0
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || give_up "please install them as root, there is no sudo here"
    as_root=sudo # which may ask for a password, where somebody can answer
    [ -t 0 ] || sudo -n true 2>/dev/null || give_up "please install them as root, sudo wants a password here"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null; }
echo "installing: $missing" >&2
for attempt in 1 2; do
    apt update
    apt install --no-install-recommends $missing && exit 0
    [ $attempt = 1 ] && sleep 3
done
tail -20 "$log" >&2
give_up "apt-get could not install them"
