# shellcheck shell=bash
# What start, stop and provision share. Sourced, not run.

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "swtpm/${0##*/}: $*"
    exit 1
}

misuse() {
    say "swtpm/${0##*/}: $*"
    say "Try: swtpm/${0##*/} --help"
    exit 2
}

# The comment at the head of the script is its manual.
manual() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

need() {
    command -v "$1" >/dev/null || fail "$1 is not installed. On Debian and Ubuntu: apt-get install $2 (or run scripts/setup)."
}

default_state() { printf '%s\n' "${LATCHKEY_SWTPM_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/latchkey/swtpm}"; }

# The process that serves the TPM in $state; nothing when there is none. A number in an old pid file may belong to
# another program by now, so the program is asked for its name and its state directory.
running_pid() {
    local pid
    pid=$(cat "$state/pid" 2>/dev/null) || return 0
    [[ $pid =~ ^[0-9]+$ ]] || return 0
    tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -- "dir=$state" && printf '%s\n' "$pid"
    return 0
}

# Makes $state the absolute path of a directory that only its owner can enter.
open_state() {
    (umask 077 && mkdir -p -- "$state") || fail "$state can't be made."
    state=$(cd -- "$state" && pwd -P)
    chmod 700 -- "$state"
}
