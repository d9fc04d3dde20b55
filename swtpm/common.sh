# shellcheck shell=bash
# Functions of start, stop and provision, which source this file.

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

# Prints the comment at the start of the script.
manual() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; }

need() {
    command -v "$1" >/dev/null || fail "$1 is not installed. On Debian and Ubuntu: apt-get install $2 (or run scripts/setup)."
}

default_state() { printf '%s\n' "${LATCHKEY_SWTPM_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/latchkey/swtpm}"; }

# Prints the process ID of the TPM in $state, or nothing. The ID in an old pid file may belong to another program, so this checks
# the program's name and state directory.
running_pid() {
    local pid argument
    pid=$(cat "$state/pid" 2>/dev/null) || return 0
    [[ $pid =~ ^[0-9]+$ ]] || return 0
    while IFS= read -r -d '' argument; do
        [[ $argument != "dir=$state" ]] || printf '%s\n' "$pid"
    done 2>/dev/null <"/proc/$pid/cmdline" || return 0
}

# Creates the directory $state with mode 0700 and makes $state absolute.
open_state() {
    (umask 077 && mkdir -p -- "$state") || fail "$state cannot be created."
    state=$(cd -- "$state" && pwd -P)
    chmod 700 -- "$state"
}
