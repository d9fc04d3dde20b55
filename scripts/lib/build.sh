# shellcheck shell=bash
# Builds the package for the scripts, which source this file in the package's root folder.

# The options of a release build. A static runtime saves milliseconds at each start. Without exported symbols, each process needs
# 1 MB less memory, because the loader reads no tables of them. Packed relocations (glibc 2.36 or later) save another 3 MB. The
# loader then loads only the libraries that a program needs. The option of the frontend makes generic types with functions that know
# the conformances. By default, the runtime makes a type from its mangled name, and searches all conformances of the program.
# shellcheck disable=SC2034 # used by the scripts that source this file
release_flags=(
    -c release --static-swift-stdlib -Xlinker --no-export-dynamic
    -Xswiftc -Xfrontend -Xswiftc -disable-concrete-type-metadata-mangled-name-accessors
    -Xswiftc -use-ld=lld -Xlinker -z -Xlinker pack-relative-relocs -Xlinker --as-needed
)
# A static libstdc++, of which BoringSSL needs little, saves up to a millisecond and 1 MB, because the loader need not resolve
# its symbols. Packages link to -lstdc++, so a folder with only the archive is searched first.
static_cpp=$(clang -print-file-name=libstdc++.a 2>/dev/null || true)
if [[ $static_cpp == /* ]]; then
    mkdir -p .build/static-cpp
    ln -sf -- "$static_cpp" .build/static-cpp/libstdc++.a
    release_flags+=(-Xswiftc "-L$PWD/.build/static-cpp")
fi
unset static_cpp
# Foundation's ICU data has 34 MB in each program. The definition makes ICU use a part of 5 MB, without the languages and character
# sets that no program uses; the linker then removes the unused data.
static_icu=$(dirname -- "$(readlink -f -- "$(command -v swift)")")/../lib/swift_static/linux/lib_FoundationICU.a
if [[ -f $static_icu ]]; then
    icu=.build/static-icu
    if [[ ! $icu/definition -nt scripts/lib/icu-data.py || ! $icu/definition -nt $static_icu ]]; then
        mkdir -p "$icu"
        python3 scripts/lib/icu-data.py "$static_icu" "$icu/data.o" >"$icu/definition.new"
        mv -- "$icu/definition.new" "$icu/definition"
    fi
    release_flags+=(-Xlinker "$PWD/$icu/data.o" -Xlinker "--defsym=$(<"$icu/definition")")
    unset icu
fi
unset static_icu
# With a section for each function, the linker removes unused functions (3 MB), and puts those of startup-order.txt first: a command
# then needs 40 to 50 % less memory. The reasons for release.ld are in that file.
release_flags+=(
    -Xswiftc -Xfrontend -Xswiftc -function-sections -Xcc -ffunction-sections -Xcc -fdata-sections
    -Xlinker "--symbol-ordering-file=$PWD/scripts/lib/startup-order.txt" -Xlinker --no-warn-symbol-ordering
    -Xlinker -T -Xlinker "$PWD/scripts/lib/release.ld"
)

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

# The environment of SwiftPM: only the variables that a build needs. If another variable changes, except a few such as TERM,
# SwiftPM compiles all modules of this package again, in four minutes (swift-package-manager#9384).
build_environment=()
for variable in HOME PATH USER LANG LC_ALL TMPDIR XDG_{CACHE,CONFIG,DATA}_HOME {http,https,all,no}_proxy {HTTP,HTTPS,ALL,NO}_PROXY \
    SSL_CERT_FILE SSL_CERT_DIR SSH_AUTH_SOCK GIT_SSL_CAINFO GIT_SSH_COMMAND GIT_ASKPASS GIT_CONFIG_{GLOBAL,SYSTEM,COUNT} \
    "${!GIT_CONFIG_KEY_@}" "${!GIT_CONFIG_VALUE_@}" "${!SWIFTLY_@}" SWIFT_EXEC SDKROOT CC CXX CPATH C_INCLUDE_PATH \
    CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH PKG_CONFIG_{PATH,LIBDIR,SYSROOT_DIR}; do
    if [[ -v $variable ]]; then build_environment+=("$variable=${!variable}"); fi
done
readonly build_environment
unset variable
swiftpm() { env -i "${build_environment[@]}" swift "$@"; }

# Builds with the compiler's output in .build/logs/build.log; prints the errors if the build fails. The first build takes some
# minutes.
build() {
    local build_log=.build/logs/build.log
    mkdir -p .build/logs
    printf 'Building%s …\n' "${*:+ ($*)}" >&2
    if ! (set -o pipefail; swiftpm build "$@" 2>&1 | show_progress >"$build_log"); then
        grep -E '^[^ ].*(error|warning):' "$build_log" | grep -v "unhandled; explicitly declare" | sort -u | head -n 60 >&2 || true
        tail -n 20 "$build_log" >&2
        printf 'The build failed. Its output is in %s.\n' "$build_log" >&2
        return 1
    fi
}

# Builds a release of each program that packaging/files installs.
build_programs() {
    local product bin
    bin=$(swiftpm build -c release --show-bin-path)
    while read -r product; do
        # SwiftPM does not link again if only these files have changed.
        if [[ $bin/$product -ot scripts/lib/startup-order.txt || $bin/$product -ot scripts/lib/release.ld ]]; then
            rm -f -- "$bin/$product"
        fi
        build "${release_flags[@]}" --product "$product" </dev/null
    done < <(awk '$4 == "program" { print $5 }' packaging/files)
}
