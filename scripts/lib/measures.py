#!/usr/bin/env python3
"""Measures the size, the public surface and the prose of the package, for scripts/lint and scripts/docs.

Usage: measures.py prose [PATH…]        list each figure of speech, as `file:line: figure: text`
       measures.py check                list the modules, test targets and documents above the limit; see MOST_FIGURES
       measures.py table                print the measures of the whole package
       measures.py declarations FOLDER  list public declarations that are undocumented, and products with too many of them

Run it in the package's root folder.
"""

import collections
import json
import pathlib
import re
import signal
import statistics
import sys

# The most figures of speech per 1,000 words of a module, a test target or a document.
MOST_FIGURES = 1.0

# Figures of speech that make technical text hard to read. In the codebases that we learn from (GRDB, swift-certificates,
# swift-crypto, hummingbird), 0.0 to 0.5 of 1,000 words match.
FIGURES = {
    "nobody, somebody, whoever": r"\b(nobody|somebody|anybody|everybody|whoever|whomever|whosoever)\b",
    "who without a noun": r"(?:^|[.;:,(] |\b(?:to|by|for|from|of|with|and|or|that|than|but) )who(?:m|se)? (?:has|have|had|is"
    r"|can|may|could|knows?|edits?|reads?|writes?|holds?|takes?|took|owns?|controls?|uses?|steals?|sees?|wants?|asks?|makes?)\b",
    "what without a noun": r"(?:^|[.;:] |\b(?:of|to|by|for|from|with|and|or|than|but|in|on|at|as|is|are|was|says|say|has|see"
    r"|takes?|gives?|reads?|knows?|keeps?|makes?|needs?) )what (?:is|was|has|had|it|they|a|an|the|can|could|may|must|did|does"
    r"|comes?|came|reads?|reaches|stands?|remains|belongs|follows|protects?|makes?|we|you|this|that|there|another|others?|one|such)\b",
    "asks or needs a person": r"\b(?:asks?|needs?|waits? for|takes?) (?:nobody|no one|somebody|you|anybody|people)\b",
    "take back, mend, thereby": r"\b(?:tak(?:es?|en|ing) (?:\w+ )?back|took (?:\w+ )?back|mend(?:s|ed|ing)?|thereby|therein"
    r"|thereof|thereafter|meanwhile|ever after|beside)\b",
    "is so, by itself": r"\b(?:is|are|was|were) so\b|\bby themselves\b|\bby itself\b|\bof its own\b|\bof their own\b"
    r"|\bin its place\b|\bto its end\b|\bas it comes\b|\bthere is none\b",
    "goes on, stands in, lies in": r"\b(?:goes on|go on|went on|stands? (?:in|at|beside|behind|for itself|there)"
    r"|lies? (?:in|at|beside|below|there)|stood (?:in|at|beside))\b",
    "lets it do": r"\b(?:has|have|had|lets?|let) (?:the |a |an |its |his |their )?\w+ (?:do|make|look|ask|sign|say|tell|take|see"
    r"|forget|certify|give)\b",
}
PATTERNS = {name: re.compile(pattern, re.I | re.M) for name, pattern in FIGURES.items()}
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
DOCUMENTS = (".md", ".tutorial", ".1", ".8", ".Debian")

# The most public declarations, the cases of enumerations aside, of each product. Raising a number is a decision.
MOST_DECLARATIONS = {
    "Latchkey": 290, "LatchkeyTPM": 28, "LatchkeyPKCS11": 43, "LatchkeyPresence": 38, "LatchkeyLogin": 85,
    "LatchkeyVault": 79, "LatchkeyCredentials": 125, "LatchkeyLocker": 121, "LatchkeyOAuth": 24, "LatchkeyHTTP": 5,
    "LatchkeyJOSE": 17, "LatchkeyCertificates": 12, "LatchkeyRelyingParty": 280, "LatchkeyPostgreSQL": 20,
    "LatchkeySimulators": 55,
    "LatchkeyTesting": 43, "TPM2": 162, "TPM2TCTI": 6, "VirtualSmartCard": 36,
}


def swift_prose(text):
    """The comments, and the string literals of at least four words, each with its line number."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("//"):
            yield number, stripped.lstrip("/").strip()
            continue
        for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            if len(WORD.findall(literal)) >= 4:
                yield number, literal
        if "// " in line:
            yield number, line.split("// ", 1)[1]
        elif stripped and not re.search(r"[{}()=]", stripped) and len(WORD.findall(stripped)) >= 5:
            yield number, stripped  # a line of a multi-line literal


def document_prose(text):
    """The lines outside fenced code, with code in backquotes replaced by one word."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`", "CODE", line)


def texts(path):
    """The Swift files and documents at the path."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        hidden = (part.startswith(".") for part in file.relative_to(path).parts)
        if file.is_file() and not any(hidden) and (file.suffix == ".swift" or file.suffix in DOCUMENTS):
            yield file


def figures(path):
    """The number of words at the path, and its figures of speech: file, line, name and text of each."""
    words, found = 0, []
    for file in texts(path):
        read = swift_prose if file.suffix == ".swift" else document_prose
        for number, line in read(file.read_text(errors="replace")):
            words += len(WORD.findall(line))
            for name, pattern in PATTERNS.items():
                for match in pattern.finditer(line):
                    text = line[max(0, match.start() - 30):match.end() + 30].strip()
                    found.append((file, number, name, text))
    return words, found


def units():
    """What the limit applies to: each module, test target and document, and each folder of programs outside Sources."""
    for folder in ("Sources", "Tests"):
        yield from sorted(path for path in pathlib.Path(folder).glob("*") if path.is_dir())
    yield from (path for path in map(pathlib.Path, ("Examples", "Benchmarks")) if path.is_dir())
    yield from sorted(file for file in texts(pathlib.Path(".")) if file.suffix in DOCUMENTS)


def prose():
    """Each unit with its words, figures and figures per 1,000 words."""
    for unit in units():
        words, found = figures(unit)
        if words:
            yield unit, words, found, 1000 * len(found) / words


def check():
    for unit, words, found, rate in prose():
        if rate > MOST_FIGURES:
            print(f"{unit}:1: prose has {rate:.1f} figures of speech per 1,000 words, {MOST_FIGURES} at most; "
                  f"`scripts/lint --prose {unit}` lists them")


def listing(paths):
    for path in map(pathlib.Path, paths or ["."]):
        for file, number, name, text in figures(path)[1]:
            print(f"{file}:{number}: {name}: …{text}…")


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
    over = {name: count for name, count in counts.items() if count > MOST_DECLARATIONS.get(name, 0)}
    for name, count in sorted(over.items()):
        print(f"{name} has {count} public declarations, {MOST_DECLARATIONS.get(name, 0)} at most")
    return 1 if undocumented or over else 0


def table():
    def row(measure, value, goal=""):
        print(f"{measure:<62} {value:>9} {goal:>9}".rstrip())

    row("measure", "value", "goal")
    lengths = [len(file.read_text().splitlines()) for file in pathlib.Path("Sources").rglob("*.swift")]
    row("Swift files in Sources", len(lengths), "≤ 480")
    row("their median, in lines", f"{statistics.median(lengths):g}", "≥ 90")
    row("lines in Sources", sum(lengths), "≤ 48000")
    readme = pathlib.Path("README.md").read_text().splitlines()
    row("lines in README.md", len(readme), "≤ 200")
    row("scripts in scripts/", sum(path.is_file() for path in pathlib.Path("scripts").iterdir()), "≤ 12")
    products = re.findall(r'\.(?:library|executable|plugin)\(name: "(\w+)"', pathlib.Path("Package.swift").read_text())
    row("products that only tests use", sum(pathlib.Path("Tests", name).is_dir() for name in products), "0")

    # scripts/docs writes the graphs.
    graphs = pathlib.Path(".build/documentation/symbols")
    if graphs.is_dir():
        counts, _ = public_declarations(graphs)
        row("public declarations, all products", sum(counts.values()), "≤ 1200")
        goals = {"Latchkey": 200} | dict.fromkeys(("LatchkeyTPM", "LatchkeyPKCS11"), 40) | dict.fromkeys(
            ("LatchkeyLogin", "LatchkeyVault", "LatchkeyCredentials", "LatchkeyLocker"), 120)
        for name, count in sorted(counts.items()):
            row(f"    {name}", count, f"≤ {goals[name]}" if name in goals else "")
    else:
        row("public declarations: run scripts/docs first", "–", "≤ 1200")

    # Of test targets and documents, only those above the limit.
    row("figures of speech per 1,000 words", "", f"≤ {MOST_FIGURES}")
    for unit, words, found, rate in prose():
        if unit.parent.name == "Sources" or rate > MOST_FIGURES:
            row(f"    {unit}", f"{rate:.1f}")


def main():
    command, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if command == "prose":
        listing(arguments)
    elif command == "check" and not arguments:
        check()
    elif command == "table" and not arguments:
        table()
    elif command == "declarations" and len(arguments) == 1:
        return declarations(arguments[0])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
sys.exit(main())
