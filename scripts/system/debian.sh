# shellcheck shell=bash
# Sets up a separate Debian as a chroot, for tests that run as root. The scripts source this file with their own arguments. It
# sets `root`, the folder of the system, and `scratch`, a temporary folder. Both end with the script, as do all processes that
# it started.

readonly mirror=${LATCHKEY_MIRROR:-http://deb.debian.org/debian}
# The name of a Debian release.
readonly debian=${LATCHKEY_DEBIAN:-bookworm}
readonly base=${XDG_CACHE_HOME:-$HOME/.cache}/latchkey/$debian.tar

skip() {
    printf 'Skipped: %s.\n' "$1"
    [[ ${CI-} != true ]]
    exit
}
((EUID == 0)) || skip 'this test needs root'
command -v debootstrap >/dev/null || skip 'debootstrap is not installed'

# In mount and PID namespaces of this script, so that its mounts and processes end with it.
if [[ ${LATCHKEY_OWN_DEBIAN-} != inside ]]; then
    LATCHKEY_OWN_DEBIAN=inside exec unshare --mount --pid --fork --kill-child --propagation private "$0" "$@"
fi

scratch=$(mktemp -d)
readonly scratch root=$scratch/root
# shellcheck disable=SC2329 # the trap calls it
clean() {
    umount --recursive --lazy "$root" 2>/dev/null || true
    rm -rf --one-file-system -- "$scratch"
}
trap clean EXIT

if [[ ! -f $base ]]; then
    printf 'Fetching Debian %s …\n' "$debian" >&2
    mkdir -p -- "$(dirname -- "$base")"
    debootstrap --force-check-gpg --variant=minbase "$debian" "$scratch/base" "$mirror" >"$scratch/log" 2>&1 ||
        { tail -n 5 "$scratch/log" >&2 && skip "Debian could not be fetched from $mirror"; }
    tar -C "$scratch/base" -cf "$base.$$" . && mv -- "$base.$$" "$base"
    rm -rf -- "$scratch/base"
fi
mkdir -- "$root"
mount -t tmpfs -o mode=755 tmpfs "$root"
tar -C "$root" -xpf "$base"
mount -t proc proc "$root/proc"
cp --remove-destination -- /etc/resolv.conf "$root/etc/resolv.conf"

failures=0
inside() { chroot "$root" env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
as_ann() { inside setpriv --reuid ann --regid ann --init-groups --inh-caps=-all env HOME=/home/ann USER=ann "$@"; }
quietly() {
    "$@" >"$scratch/log" 2>&1 || { tail -n 20 "$scratch/log" >&2 && printf '%s: %s failed.\n' "$0" "$*" >&2 && exit 1; }
}
check() { # WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$scratch/check" 2>&1; then
        printf '%-72s ok\n' "$what"
    else
        printf '%-72s FAILED\n' "$what"
        tail -n 10 "$scratch/check"
        failures=$((failures + 1))
    fi
}
says() { # PATTERN COMMAND…
    local pattern=$1
    shift
    local status=0
    "$@" >"$scratch/said" 2>&1 || status=$?
    cat "$scratch/said"
    ((status == 0)) && grep -qE -- "$pattern" "$scratch/said"
}
