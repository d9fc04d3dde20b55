# shellcheck shell=bash
# What demo and test share: one way to build, so that both use the same .build. Sourced, not run, at the package's root.

# Builds quietly: what the compiler says goes to .build/logs/build.log, and is shown when it fails. The first build
# takes some minutes.
build() {
    local build_log=.build/logs/build.log
    mkdir -p .build/logs
    printf 'Building (%s) …\n' "$*" >&2
    if ! swift build "$@" >"$build_log" 2>&1; then
        grep -E '^[^ ].*(error|warning):' "$build_log" | grep -v "unhandled; explicitly declare" | sort -u | head -n 60 >&2 || true
        tail -n 20 "$build_log" >&2
        printf 'The build failed. All of its output is in %s.\n' "$build_log" >&2
        return 1
    fi
}
