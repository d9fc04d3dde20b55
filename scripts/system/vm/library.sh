# shellcheck shell=sh
# Functions of the scenarios of scripts/system-test. The machine's first process sources this file in its root directory.

export LATCHKEY_CLIENT_ID=latchkey-demo

passed() { echo "LATCHKEY ok $scenario: $*"; }

failed() {
    echo "LATCHKEY failed $scenario: $*"
    [ ! -f /tmp/out ] || sed 's/^/    stdout: /' /tmp/out
    [ ! -f /tmp/err ] || sed 's/^/    stderr: /' /tmp/err
}

# as USER COMMAND…: runs the command as that user; stdout and stderr go to /tmp/out and /tmp/err.
as() {
    user=$1
    shift
    printf '%s\n' "$*" >/tmp/command
    timeout 600 su "$user" -c "cd; HOME=/data/$user BROWSER=/usr/bin/browser LATCHKEY_ENDPOINT=$LATCHKEY_ENDPOINT sh /tmp/command" \
        </dev/null >/tmp/out 2>/tmp/err
}

# expect STATUS WHAT COMMAND…: runs the command as ada and checks its exit status.
expect() {
    wanted=$1 what=$2
    shift 2
    as ada "$*"
    got=$?
    if [ "$got" = "$wanted" ]; then passed "$what"; else failed "$what: exit $got instead of $wanted"; fi
    [ "$got" = "$wanted" ]
}

# says WHAT PATTERN: checks that a line of the last command's stdout or stderr matches.
says() {
    if cat /tmp/out /tmp/err | grep -qE "$2"; then passed "$1"; else failed "$1: no line matches ‘$2’"; fi
}

pins() {
    rm -f /data/ada/pins
    printf '%s\n' "$@" >/data/ada/pins
    chown ada:ada /data/ada/pins
    chmod 0600 /data/ada/pins
}

# Ends a lockout as the TPM's lockout administrator: a TPM may count a loss of power as a wrong PIN.
forgive() { tpm2_dictionarylockout -T device:/dev/tpmrm0 --clear-lockout >/tmp/out 2>/tmp/err || failed "clear the lockout"; }

# serve [OPTION…]: starts the identity server with its database on the disk.
serve() {
    latchkey-identity serve --demo --port 8181 --database /data/identity.sqlite "$@" >/tmp/announcement 2>/tmp/identity.log &
    tries=0
    until grep -q endpoint /tmp/announcement 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 3000 ] || { failed "the identity server does not start: $(cat /tmp/identity.log)" && return 1; }
        sleep 0.1
    done
    LATCHKEY_ENDPOINT=http://127.0.0.1:8181
    export LATCHKEY_ENDPOINT
}

# The time since the machine started. The date command of BusyBox has no nanoseconds.
milliseconds() { sed 's/^\([0-9]*\)\.\([0-9]\)\([0-9]\).*/\1\2\30/' /proc/uptime; }

# Ends a boot. With `again`, the scenario boots once more with the next number, on the same disk and TPM.
switch_off() {
    sync
    umount /data 2>/dev/null
    echo "LATCHKEY end ${1-}"
    poweroff -f
}

# cut_power_in PARTS COMMAND…: runs the command as ada and cuts the power after N/PARTS of the time in /data/duration, where N
# is the number of this boot. Like a mains failure, it stops all writes without notice.
cut_power_in() {
    parts=$1
    shift
    echo "LATCHKEY end again"
    # The console is slow, and the power cut loses its unprinted text.
    sync
    sleep 1
    as ada "$*" &
    usleep $(($(cat /data/duration) * 1000 * boot / parts))
    echo b >/proc/sysrq-trigger
    sleep 60
}
