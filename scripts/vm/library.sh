# shellcheck shell=sh
# What the scenarios of scripts/vm-test share. Sourced by the machine's first process, at its root.

export LATCHKEY_CLIENT_ID=latchkey-demo

passed() { echo "LATCHKEY ok $scenario: $*"; }

failed() {
    echo "LATCHKEY failed $scenario: $*"
    [ ! -f /tmp/out ] || sed 's/^/    stdout: /' /tmp/out
    [ ! -f /tmp/err ] || sed 's/^/    stderr: /' /tmp/err
}

# as USER COMMAND…: runs it as that user; stdout and stderr are in /tmp/out and /tmp/err.
as() {
    user=$1
    shift
    printf '%s\n' "$*" >/tmp/command
    timeout 100 su "$user" -c "cd; HOME=/data/$user BROWSER=/usr/bin/browser LATCHKEY_ENDPOINT=$LATCHKEY_ENDPOINT sh /tmp/command" \
        </dev/null >/tmp/out 2>/tmp/err
}

# expect STATUS WHAT COMMAND…: as ada.
expect() {
    wanted=$1 what=$2
    shift 2
    as ada "$*"
    got=$?
    if [ "$got" = "$wanted" ]; then passed "$what"; else failed "$what: exit $got instead of $wanted"; fi
    [ "$got" = "$wanted" ]
}

# says WHAT PATTERN: the last command's stdout or stderr has a line that matches.
says() {
    if cat /tmp/out /tmp/err | grep -qE "$2"; then passed "$1"; else failed "$1: nothing matches ‘$2’"; fi
}

pins() {
    rm -f /data/ada/pins
    printf '%s\n' "$@" >/data/ada/pins
    chown ada:ada /data/ada/pins
    chmod 0600 /data/ada/pins
}

# An end of the lockout, as its administrator: a TPM that loses its power may count that as a wrong PIN.
forgive() { tpm2_dictionarylockout -T device:/dev/tpmrm0 --clear-lockout >/tmp/out 2>/tmp/err || failed "clear the lockout"; }

# Starts the identity server, whose database is on the disk.
serve() {
    latchkey-identity serve --demo --port 8181 --database /data/identity.sqlite >/tmp/announcement 2>/tmp/identity.log &
    tries=0
    until grep -q endpoint /tmp/announcement 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { failed "the identity server does not start: $(cat /tmp/identity.log)" && return 1; }
        sleep 0.1
    done
    LATCHKEY_ENDPOINT=http://127.0.0.1:8181
    export LATCHKEY_ENDPOINT
}

# Since the machine was started. Busybox's date knows no nanoseconds.
milliseconds() { sed 's/^\([0-9]*\)\.\([0-9]\)\([0-9]\).*/\1\2\30/' /proc/uptime; }

# The last words of a boot. `again` has the scenario booted once more, with the next number, on the same disk and TPM.
switch_off() {
    sync
    umount /data 2>/dev/null
    echo "LATCHKEY end ${1-}"
    poweroff -f
}

# cut_power_in PARTS COMMAND…: as ada, until the power fails: at this boot's number of PARTS equal parts of the time that is
# in /data/duration. What a mains failure does: nothing is written any more, and nobody is told.
cut_power_in() {
    parts=$1
    shift
    echo "LATCHKEY end again"
    # The console is slow, and what it has not printed is lost as well.
    sync
    sleep 1
    as ada "$*" &
    usleep $(($(cat /data/duration) * 1000 * boot / parts))
    echo b >/proc/sysrq-trigger
    sleep 60
}
