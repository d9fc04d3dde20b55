#!/usr/bin/env -S python3 -B
"""Writes the symbol graphs of the public declarations of each module in Sources.

Usage: symbol-graphs.py FOLDER, in the package's root folder, after `swift build`

`swift package dump-symbol-graph` builds all modules again with other options, which takes minutes. This script reads the modules
of the debug build.
"""

import concurrent.futures
import os
import subprocess
import sys

from swiftmodules import swift_modules


def search_paths(arguments):
    """The options that find other modules."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-I", "-Xcc", "-target", "-module-cache-path"):
            yield from (argument, next(rest))
        elif argument.startswith("-I"):
            yield argument


def extract(name, arguments, folder):
    return subprocess.run(
        ["swift", "symbolgraph-extract", "-module-name", name, *search_paths(arguments), "-minimum-access-level", "public",
         "-skip-synthesized-members", "-emit-extension-block-symbols", "-output-dir", folder],
        capture_output=True, text=True, check=False)


def main(folder):
    status = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for run in pool.map(lambda module: extract(*module, folder), swift_modules()):
            if run.returncode != 0:
                status = 1
                print(run.stderr, end="", file=sys.stderr)
    sys.exit(status)


if len(sys.argv) != 2:
    sys.exit("Usage: symbol-graphs.py FOLDER")
main(sys.argv[1])
