"""The compiler's commands for the modules of the package, as SwiftPM planned them for the last debug build."""

import json
import os
import re
import sys


def swift_modules():
    """Yields the name and the compiler's arguments of each module in Sources. Exits if there are none."""
    try:
        with open(".build/debug.yaml", encoding="utf-8") as file:
            manifest = file.read()
    except FileNotFoundError:
        sys.exit("Could not read .build/debug.yaml: there is no debug build. Run scripts/test first.")
    found = False
    sources = os.path.realpath("Sources") + "/"
    for text in re.findall(r'^ +description: "Compiling Swift Module .*\n +args: (\[.*\])$', manifest, re.MULTILINE):
        arguments = json.loads(text)
        files = next((argument[1:] for argument in arguments if argument.startswith("@")), "")
        # A target that is not used has no list.
        if not os.path.exists(files):
            continue
        with open(files, encoding="utf-8") as lines:
            if lines.readline().strip("'\"\n").startswith(sources):
                found = True
                yield arguments[arguments.index("-module-name") + 1], arguments
    if not found:
        sys.exit("Could not read .build/debug.yaml: it has no modules of Sources.")
