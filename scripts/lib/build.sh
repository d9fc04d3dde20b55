# shellcheck shell=bash
# Builds the package for the scripts, which source this file in the package's root folder.

# step NAME COMMAND…: runs the command, and prints its time. In .ci/run, the time is also written to the file $step_times.
step() {
    local name=$1 started=$SECONDS result=0
    shift
    "$@" || result=$?
    printf '%s took %d s.\n' "$name" $((SECONDS - started)) | tee -a "${step_times:-/dev/null}"
    return "$result"
}

# Copies its input to stdout, and shows the build's progress in one line if stderr is a terminal.
show_progress() {
    if [[ ! -t 2 || ${TERM:-dumb} == dumb ]]; then cat; return; fi
    local line
    while IFS= read -r line || [[ -n $line ]]; do
        printf '%s\n' "$line"
        if [[ $line == \[* ]]; then printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$line" >&2; fi
    done
    printf '\r\033[K' >&2
}

# Runs `swift build` with the compiler's output in .build/logs/build.log; prints the errors if the build fails. The first build
# takes some minutes.
build() {
    local build_log=.build/logs/build.log
    mkdir -p .build/logs
    printf 'Building%s …\n' "${*:+ ($*)}" >&2
    if ! (set -o pipefail; swift build "$@" 2>&1 | show_progress >"$build_log"); then
        grep -E '^[^ ].*(error|warning):' "$build_log" | grep -v "unhandled; explicitly declare" | sort -u | head -n 60 >&2 || true
        tail -n 20 "$build_log" >&2
        printf 'The build failed. Its output is in %s.\n' "$build_log" >&2
        return 1
    fi
}
