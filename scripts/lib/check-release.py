#!/usr/bin/env -S python3 -B
"""Type-checks each module of Sources as one unit, as release builds compile it.

Usage: check-release.py, in the package's root folder, after `swift build --build-tests`

A debug build compiles the files of a module in groups, and accepts uses of C declarations that a release build rejects, for
example if two C modules include the same header. A release build takes too long for each change. This check reuses the modules of
the debug build, and takes a minute. Prints the errors; exits 1 if there are any.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

from swiftmodules import swift_modules

# Options of the compiler that select the kind of output, with the number of their values.
OUTPUT = {
    "-emit-dependencies": 0, "-emit-module": 0, "-emit-module-path": 1, "-emit-objc-header": 0, "-emit-objc-header-path": 1,
    "-output-file-map": 1, "-parseable-output": 0, "-incremental": 0, "-c": 0, "-enable-batch-mode": 0,
    "-serialize-diagnostics": 0, "-index-store-path": 1, "-enable-testing": 0,
}


def check(arguments):
    """The command that type-checks the module of a compiler's command."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument in OUTPUT:
            for _ in range(OUTPUT[argument]):
                next(rest)
        elif not re.fullmatch(r"-j\d+", argument):
            kept.append(argument)
    return kept + ["-typecheck", "-whole-module-optimization"]


def main():
    checks = [check(arguments) for _, arguments in swift_modules()]
    status = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda check: subprocess.run(check, capture_output=True, text=True, check=False), checks)
        for run in runs:
            if run.returncode != 0:
                status = 1
                print(run.stderr, end="")
    print(f"Checked {len(checks)} modules as a release build compiles them.")
    sys.exit(status)


main()
