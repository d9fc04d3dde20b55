# shellcheck shell=bash
# What scripts share: one way to build, so that all use the same .build. Sourced, not run, at the package's root.

# How a release is built. The runtime is linked in, which saves milliseconds of each start. A program's own symbols are
# not offered to libraries that it loads, whose tables the loader would read: a megabyte of each process's memory. What
# the loader has to relocate, 150,000 words, is written down in packed form (glibc 2.36 and later): three megabytes more.
# shellcheck disable=SC2034 # used by who sources this
release_flags=(
    -c release --static-swift-stdlib -Xlinker --no-export-dynamic
    -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs
)

# Shows on a terminal, in one line, how far a build is; elsewhere nothing. Passes its input on.
show_progress() {
    if [[ ! -t 2 || ${TERM:-dumb} == dumb ]]; then cat; return; fi
    local line
    while IFS= read -r line || [[ -n $line ]]; do
        printf '%s\n' "$line"
        if [[ $line == \[* ]]; then printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$line" >&2; fi
    done
    printf '\r\033[K' >&2
}

# Builds quietly: what the compiler says goes to .build/logs/build.log, and is shown when it fails. The first build
# takes some minutes.
build() {
    local build_log=.build/logs/build.log
    mkdir -p .build/logs
    printf 'Building (%s) …\n' "$*" >&2
    if ! (set -o pipefail; swift build "$@" 2>&1 | show_progress >"$build_log"); then
        grep -E '^[^ ].*(error|warning):' "$build_log" | grep -v "unhandled; explicitly declare" | sort -u | head -n 60 >&2 || true
        tail -n 20 "$build_log" >&2
        printf 'The build failed. All of its output is in %s.\n' "$build_log" >&2
        return 1
    fi
}
