#!/usr/bin/env python3
"""Prints the test targets for a change, one in each line, for scripts/test --changed.

Usage: scripts/lib/changed-tests.py DESCRIPTION < FILES

DESCRIPTION is the output of `swift package describe --type json`; FILES are the changed files, one in each line. A changed target
is tested by its own tests (X by XTests). If it has none, the test targets that import it directly test it. `*` means all tests.
"""

import json
import sys

# Files outside the targets, or with tests in other targets, by the start of their path.
OTHERS = [
    ("Package.", ["*"]),
    ("Tests/C/HostileModule/", ["LatchkeyPKCS11Tests"]),
    ("Tests/C/FingerprintToken/", ["LatchkeyPKCS11Tests", "LatchkeySimulatorsTests"]),
    ("Tests/C/KillSwitch/", ["CommandTests"]),
    ("Examples/", ["CommandTests", "DocumentationTests"]),
    ("Documentation/", ["DocumentationTests"]),
    ("packaging/", ["CommandTests"]),
    ("README.md", ["CommandTests", "DocumentationTests"]),
    ("scripts/", ["LatchkeySimulatorsTests"]),
    ("Sources/Server/LatchkeyRelyingParty/LatchkeyRelyingParty.docc/Tables.md", ["DocumentationTests", "LatchkeyRelyingPartyTests"]),
]
# The tests with another name than their target.
OWN = {"latchkey": ["CommandTests"], "latchkey-identity": ["LatchkeyIdentityTests"],
       "latchkey-presenced": ["PresenceBrokerTests"], "pam_latchkey": ["PresenceBrokerTests"], "latchkey-uhid": ["PasskeyRelayTests"],
       "latchkey-agent": ["CommandTests"], "latchkey-passkeys": ["PasskeyServiceTests", "CommandTests"],
       "latchkey-keyring": ["LatchkeyDesktopTests"], "latchkey-card": ["VirtualSmartCardTests"],
       "TPM2TCTI": ["TPM2Tests"],
       "LatchkeyTesting": ["LatchkeySimulatorsTests"]}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        targets = json.load(file)["targets"]
    tests = {target["name"]: target for target in targets if target["type"] == "test"}
    by_path = sorted(((target["path"] + "/", target["name"]) for target in targets), key=lambda pair: -len(pair[0]))

    def tests_of(path):
        for start, names in OTHERS:
            if path.startswith(start):
                return names
        if ".docc/" in path:
            return ["DocumentationTests"]
        for start, name in by_path:
            if path.startswith(start):
                own = [name] if name in tests else OWN.get(name, [name + "Tests"])
                if all(test in tests for test in own):
                    return own
                return [test for test, target in tests.items() if name in target.get("target_dependencies", [])]
        return []

    chosen = set()
    for line in sys.stdin:
        chosen.update(tests_of(line.rstrip("\n")))
    print("\n".join(["*"] if "*" in chosen else sorted(chosen)))


main()
