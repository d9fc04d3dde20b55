"""The compiler's commands for the modules of the package, as the last debug build ran them."""

import json
import os
import re
import sys


def swift_modules():
    """Yields the name and the compiler's arguments of each module in Sources. Exits if there is no build."""
    try:
        with open(".build/debug.yaml", encoding="utf-8") as file:
            manifest = file.read()
    except FileNotFoundError:
        sys.exit("There is no debug build; run swift build first.")
    sources = os.path.realpath("Sources") + "/"
    for text in re.findall(r'^ +description: "Compiling Swift Module .*\n +args: (\[.*\])$', manifest, re.MULTILINE):
        arguments = json.loads(text)
        files = next((argument[1:] for argument in arguments if argument.startswith("@")), "")
        # A target that is not used has no list.
        if not os.path.exists(files):
            continue
        with open(files, encoding="utf-8") as lines:
            if lines.readline().strip("'\"\n").startswith(sources):
                yield arguments[arguments.index("-module-name") + 1], arguments
