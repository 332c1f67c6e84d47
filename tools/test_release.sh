#!/bin/bash
# `make test` of this checkout on another release of Debian or Ubuntu, in a folder of its own: other compilers, FFmpeg, oneDNN, PyTorch. As root; debootstrap and the release's packages come over the network,
# gigabytes of them. Not part of `make test`. The folder stays, so that the next time is short; what has changed since is taken over.
#   tools/test_release.sh trixie|noble|... [FOLDER [COMMAND]]        FOLDER: ../snls-RELEASE; COMMAND: "make test"
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
release=${1:?a release, such as trixie or noble}
root=${2:-$(dirname "$source")/snls-$release}
command=${3:-make test}
[ "$(id -u)" = 0 ] || { echo "test_release.sh: must be run as root, for a root folder of its own" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "test_release.sh: needs debootstrap" >&2; exit 2; }
if [ ! -e "$root/made" ]; then
    components=main script=/usr/share/debootstrap/scripts/$release
    [ -e "$script" ] || { echo "test_release.sh: this debootstrap has no $script; those of Ubuntu are links to gutsy there, those of Debian to sid" >&2; exit 2; }
    if grep -q ubuntu "$script"; then components=main,universe; fi # where it has oneDNN and FFmpeg's libraries
    debootstrap --variant=minbase --components=$components "$release" "$root"
    touch "$root/made"
fi
mkdir -p "$root/snls"
cd "$source"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done | tar --null -T - -cf - | tar -C "$root/snls" -xf -
cat >"$root/tests-of-snls" <<'END'
set -eu
command -v make >/dev/null || { apt-get -q update && apt-get -q -y install --no-install-recommends make git ca-certificates; } >/dev/null
cd /snls
bash -c "$1"
END
# mounts in a namespace of their own: nothing is left mounted, however this ends
exec unshare --mount bash -eu -c '
    mount -t proc proc "$1/proc"; mount --rbind /sys "$1/sys"; mount --rbind /dev "$1/dev"
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    exec chroot "$1" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /tests-of-snls "$2"
' _ "$root" "$command"
