#!/usr/bin/env python3
"""Measures the size and the public surface of the package, for scripts/lint and scripts/docs.

Usage: measures.py table TEXTS          print the measures of the whole package; TEXTS is the number of library texts with commands
       measures.py declarations FOLDER  list public declarations that are undocumented, and check their number

Run it in the package's root folder.
"""

import collections
import json
import pathlib
import sys

# The most public declarations of all products, the cases of enumerations aside. Raising the number is a decision.
MOST_DECLARATIONS = 1387


def graphs(folder):
    """The symbol graphs of the products in the folder, as file names and contents; programs have no public surface."""
    for path in sorted(pathlib.Path(folder).glob("*.symbols.json")):
        graph = json.loads(path.read_text())
        if not graph["module"]["name"].startswith("latchkey"):
            yield path.name, graph


def public_declarations(folder):
    """The number of public declarations of each product, and the undocumented ones: file, line and name of each."""
    counts, undocumented = collections.Counter(), set()
    for name, graph in graphs(folder):
        for symbol in graph["symbols"]:
            kind = symbol["kind"]["identifier"]
            # A file Product@Other has the extensions of another module's types.
            if "@" not in name and kind not in ("swift.extension", "swift.enum.case"):
                counts[graph["module"]["name"]] += 1
            if "docComment" in symbol or kind == "swift.extension":
                continue
            place = symbol.get("location", {"uri": graph["module"]["name"], "position": {"line": -1}})
            uri = place["uri"].partition("/Sources/")
            undocumented.add(
                (uri[1][1:] + uri[2] or uri[0], place["position"]["line"] + 1, ".".join(symbol["pathComponents"])))
    return counts, sorted(undocumented)


def declarations(folder):
    counts, undocumented = public_declarations(folder)
    for path, line, name in undocumented:
        print(f"{path}:{line}: {name} is public and has no documentation comment")
    total = sum(counts.values())
    if total > MOST_DECLARATIONS:
        print(f"The products have {total} public declarations, {MOST_DECLARATIONS} at most: {dict(sorted(counts.items()))}")
    return 1 if undocumented or total > MOST_DECLARATIONS else 0


def text(path):
    return path.read_text(errors="replace").splitlines()


def files(folder, *suffixes):
    """The files in the folder with these suffixes (all without), not those of builds."""
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not {".build", "__pycache__"} & set(path.parts) and (not suffixes or path.suffix in suffixes):
            yield path


def table(texts):
    def row(measure, value, goal=""):
        print(f"{measure:<52} {value:>9} {goal:>9}".rstrip())

    swift = {path: text(path) for folder in ("Sources", "Tests", "Examples") for path in files(folder, ".swift")}
    sources = {path: lines for path, lines in swift.items() if path.parts[0] == "Sources"}
    longest = max(sources, key=lambda path: len(sources[path]))
    lines = [line for lines in swift.values() for line in lines]
    row("measure", "value", "goal")
    row("lines in Sources", sum(map(len, sources.values())), "≤ 70000")
    row("files in Sources", len(sources), "≤ 611")
    row(f"the longest file, {longest.name}", len(sources[longest]), "≤ 400")
    for folder, goal in (("Tests", 64000), ("Benchmarks", 2200)):
        row(f"lines in {folder}", sum(len(text(path)) for path in files(folder, ".swift", ".c", ".h")), f"≤ {goal}")
    row("lines in scripts", sum(len(text(path)) for path in files("scripts")), "≤ 4500")
    row("lines over 100 columns", f"{100 * sum(len(line) > 100 for line in lines) / len(lines):.1f} %", "≤ 4 %")
    for name, goal in (("Package.swift", 300), ("README.md", 150), ("CHANGELOG.md", 60)):
        row(f"lines in {name}", len(text(pathlib.Path(name))), f"≤ {goal}")
    row("library texts that name a command or option", texts, "0")
    # scripts/docs writes the graphs.
    graphs = pathlib.Path(".build/documentation/symbols")
    if graphs.is_dir():
        counts, _ = public_declarations(graphs)
        row("public declarations, all products", sum(counts.values()), "≤ 1200")
        for name, count in sorted(counts.items()):
            row(f"    {name}", count)
    else:
        row("public declarations: run scripts/docs first", "–", "≤ 1200")


def main():
    command, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if command == "table" and len(arguments) == 1:
        table(arguments[0])
    elif command == "declarations" and len(arguments) == 1:
        return declarations(arguments[0])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


sys.exit(main())
