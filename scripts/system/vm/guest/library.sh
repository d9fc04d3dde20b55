# shellcheck shell=sh
# Functions of the scenarios with systemd. systemd runs a scenario as root, as the unit scenario.service.

export LC_ALL=C.UTF-8 PYTHONPATH=/opt/site PYTHONDONTWRITEBYTECODE=1
scenario=$(sed -n 's/.*latchkey.scenario=\([^ ]*\).*/\1/p' /proc/cmdline)
# The output of the last command.
output=/run/scenario.out

passed() { echo "LATCHKEY ok $scenario: $*"; }
failed() {
    echo "LATCHKEY failed $scenario: $*"
    [ ! -f $output ] || sed 's/^/    /' $output
}
note() { echo "LATCHKEY note $scenario: $* ($(cut -d' ' -f1 /proc/uptime) s)"; }

# as USER COMMAND…: runs the command in the user's environment, without a terminal.
as() {
    user=$1
    shift
    (cd "/home/$user" && timeout 900 setsid setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="/home/$user" \
        USER="$user" PATH=/usr/bin:/bin:/usr/sbin LC_ALL=C.UTF-8 PYTHONPATH=/opt/site PYTHONDONTWRITEBYTECODE=1 \
        XDG_RUNTIME_DIR="/run/user/$(id -u "$user")" "$@") </dev/null
}

# expect STATUS WHAT USER COMMAND…: runs the command as the user, and checks its exit status.
expect() {
    wanted=$1 what=$2
    shift 2
    try "$wanted" "$what" as "$@"
}
# try STATUS WHAT COMMAND…: runs the command as root, and checks its exit status.
try() {
    wanted=$1 what=$2
    shift 2
    began=$(milliseconds)
    "$@" >$output 2>&1
    got=$?
    took=$(($(milliseconds) - began))
    if [ "$got" = "$wanted" ]; then passed "$what [$took ms]"; else failed "$what: exit $got instead of $wanted"; fi
    [ "$got" = "$wanted" ]
}

# says WHAT PATTERN: checks that a line of the last output matches.
says() { if grep -qE -- "$2" $output; then passed "$1"; else failed "$1: no line matches ‘$2’"; fi; }
# is WHAT WANTED GOT
is() { if [ "$2" = "$3" ]; then passed "$1"; else failed "$1: ‘$3’ instead of ‘$2’"; fi; }

milliseconds() { sed 's/^\([0-9]*\)\.\([0-9]\)\([0-9]\).*/\1\2\30/' /proc/uptime; }

# wait_for COMMAND…: waits at most 120 s until the command succeeds.
wait_for() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || { failed "waited too long for: $*" && return 1; }
        sleep 0.1
    done
}
# The node of a user's device; nothing if there is no device.
node_of() {
    for entry in /sys/class/hidraw/*; do
        grep -qx "HID_UNIQ=$(id -u "$1")" "$entry/device/uevent" 2>/dev/null && echo "/dev/${entry##*/}"
    done
}
has_node() { [ -n "$(node_of "$1")" ]; }
has_no_node() { ! has_node "$1"; }
# The resident memory of a unit's main process now.
memory_of() { sed -n 's/^VmRSS:[[:space:]]*//p' "/proc/$(systemctl show -p MainPID --value "$1")/status"; }

switch_off() {
    echo "LATCHKEY end"
    sync
    systemctl poweroff --force --force
}

# Passkeys.

# write USER FILE LINE…: writes a file in the user's home.
write() {
    printf '%s\n' "$3" ${4+"$4"} ${5+"$5"} >"/home/$1/$2"
    chown "$1:$1" "/home/$1/$2"
}
# start_passkeys USER: starts the user's service. Sets node.
start_passkeys() {
    began=$(milliseconds)
    as "$1" systemctl --user start latchkey-passkeys.service >$output 2>&1 || {
        as "$1" journalctl --user --no-pager -q -n 20 >>$output 2>&1
        journalctl --no-pager -q -n 20 >>$output
        failed "the service of $1 starts"
    }
    wait_for has_node "$1"
    udevadm settle
    node=$(node_of "$1")
    note "the device of $1 is ready after $(($(milliseconds) - began)) ms"
}
# The parameters of fido2-cred and fido2-assert, in the user's home. A second argument names another site.
credential_parameters() {
    { head -c 32 /dev/urandom | base64 && echo "${2:-example.org}" && echo "${3:-ada@example.org}" &&
        head -c 32 /dev/urandom | base64; } >"/home/$1/cred.in"
    chown "$1" "/home/$1/cred.in"
}
# assertion_parameters USER [SALT]: uses the credential of the last fido2-cred.
assertion_parameters() {
    { head -c 32 /dev/urandom | base64 && echo example.org && head -n 1 "/home/$1/cred"; } >"/home/$1/assert.in"
    tail -n +2 "/home/$1/cred" >"/home/$1/public"
    [ -z "${2-}" ] || printf '%-32s' "$2" | base64 >>"/home/$1/assert.in"
    chown "$1" "/home/$1/assert.in" "/home/$1/public"
}
# prompted WHAT PATTERN: checks the texts of Ada's prompts since the last call, and empties the list.
prompted() {
    cp /home/ada/prompts $output 2>/dev/null || : >$output
    : >/home/ada/prompts
    chown ada:ada /home/ada/prompts
    says "$1" "$2"
}
# window_opens: waits for a window of Ada. The choice `wait` keeps it open.
window_opens() { wait_for grep -q '^question: ' /home/ada/prompts; }
# window_closes WHAT: waits until it closes, in less than the time limit of a request, 30 s.
window_closes() {
    began=$(milliseconds)
    wait_for grep -q '^closed$' /home/ada/prompts
    took=$(($(milliseconds) - began))
    [ $took -lt 15000 ] && passed "$1 [$took ms]" || failed "$1: after $took ms"
}
