# shellcheck shell=bash
# What scripts share that try something in a Debian of its own, as root, with nothing of this machine in it but what they
# put there. Sourced, not run, with the script's own arguments. Then `root` is the system, and `scratch` a directory
# beside it; both are gone at the end, and so is whatever was started.

readonly mirror=${LATCHKEY_MIRROR:-http://deb.debian.org/debian}
# Or another system: $LATCHKEY_BASE is a tar of its root. What is in it runs as root of this machine: take a distribution's own.
readonly base=${LATCHKEY_BASE:-${XDG_CACHE_HOME:-$HOME/.cache}/latchkey/bookworm.tar}

skip() {
    printf 'Skipped, nothing is tried: %s.\n' "$1"
    [[ ${CI-} != true ]]
    exit
}
((EUID == 0)) || skip 'it takes root'
command -v debootstrap >/dev/null || skip 'there is no debootstrap'

# A namespace of mounts and processes for the script alone: nothing is left behind.
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
    printf 'Fetching Debian 12 …\n' >&2
    mkdir -p -- "$(dirname -- "$base")"
    debootstrap --force-check-gpg --variant=minbase bookworm "$scratch/base" "$mirror" >"$scratch/log" 2>&1 ||
        { tail -n 5 "$scratch/log" >&2 && skip "no Debian can be had from $mirror"; }
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
