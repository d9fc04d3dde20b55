#!/usr/bin/env python3
"""Type-checks each module of Sources as one unit, as release builds compile it.

Usage: check-release.py, in the package's root folder, after `swift build --build-tests`

A debug build compiles the files of a module in groups, and accepts uses of C declarations that a release build rejects, for
example if two C modules include the same header. A release build takes too long for each change. This check reuses the modules of
the debug build, and takes a minute. Prints the errors; exits 1 if there are any.
"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

# Options of the compiler that select the kind of output, with the number of their values.
OUTPUT = {
    "-emit-dependencies": 0, "-emit-module": 0, "-emit-module-path": 1, "-emit-objc-header": 0, "-emit-objc-header-path": 1,
    "-output-file-map": 1, "-parseable-output": 0, "-incremental": 0, "-c": 0, "-enable-batch-mode": 0,
    "-serialize-diagnostics": 0, "-index-store-path": 1, "-enable-testing": 0,
}


def commands(manifest, sources):
    """The compiler's commands for the modules with files in `sources`, without the options for output."""
    for text in re.findall(r'^ +description: "Compiling Swift Module .*\n +args: (\[.*\])$', manifest, re.MULTILINE):
        arguments = json.loads(text)
        files = next((argument[1:] for argument in arguments if argument.startswith("@")), "")
        # A target that is not used has no list.
        if not os.path.exists(files):
            continue
        with open(files, encoding="utf-8") as lines:
            if not lines.readline().strip("'\"\n").startswith(sources):
                continue
        kept, rest = [], iter(arguments)
        for argument in rest:
            if argument in OUTPUT:
                for _ in range(OUTPUT[argument]):
                    next(rest)
            elif not re.fullmatch(r"-j\d+", argument):
                kept.append(argument)
        yield kept + ["-typecheck", "-whole-module-optimization"]


def main():
    with open(".build/debug.yaml", encoding="utf-8") as file:
        checks = list(commands(file.read(), os.path.realpath("Sources") + "/"))
    if not checks:
        sys.exit("check-release.py: .build/debug.yaml has no modules of Sources; run swift build first.")
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
