import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// The names of keys: an ID, the first characters of it, or a label, the same in all commands.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct KeyNameTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private func make(_ machine: Machine, _ arguments: String...) async throws -> String {
        let created = try await machine.run(
            ["key", "create", "--json"] + arguments, pins: ["2580"])
        return try #require(created.json()["id"]?.string, "\(created.errors)")
    }

    private func make(_ machine: Machine, label: String) async throws -> String {
        try await make(machine, "--policy", "none", "--label", label)
    }

    private func expectTaken(_ outcome: Outcome, _ words: String) throws {
        #expect(outcome.status == 10)
        let message = try outcome.json()["error"]?["message"]?.string ?? ""
        #expect(message.contains(words), "\(message)")
    }

    @Test func `a key is found by its ID, the first characters of it, or its label`() async throws {
        let machine = try machine()
        func shown(_ name: String) async throws -> JSON? {
            let outcome = try await machine.run("key", "show", name, "--json")
            return outcome.status == 0 ? try outcome.json()["id"] : nil
        }
        let id = try await make(machine, label: "ab")
        #expect(try await shown("ab") == .string(id))
        #expect(try await shown(String(id.prefix(4))) == .string(id))
        #expect(try await shown(String(id.prefix(3))) == nil)
        #expect(try await shown(id.lowercased()) == .string(id))
        let other = try await make(machine, label: "cd")
        #expect(try await machine.run("key", "delete", "ab", "--yes").status == 2)
        #expect(try await machine.run("key", "delete", id.lowercased(), "--yes").status == 0)
        #expect(try await shown(id) == nil)
        #expect(try await machine.run("key", "list").output.contains("\(other)  none"))
        #expect(
            try await machine.run("key", "create", "--policy", "none", "--label", "").status == 2)
        let unwritten = try await machine.run(
            "key", "sign", other, "/dev/null", "--output", "/nonexistent/x")
        #expect(
            unwritten.status == 2 && !unwritten.errors.contains("NSCocoa"), "\(unwritten.errors)")
    }

    @Test func `a label names one key: no other key or SSH key gets it`() async throws {
        let machine = try machine()
        let plain = try await machine.run(
            "key", "create", "--policy", "none", "--label", "r", "--slot", "9a")
        #expect(plain.status == 0 && plain.errors.contains("--slot has no effect"))
        _ = try await make(machine, "--ssh", "--label", "s")
        for (label, kind) in [("r", "key"), ("s", "SSH key")] {
            for arguments in [["--policy", "none"], ["--ssh"]] {
                let refused = try await machine.run(
                    ["key", "create", "--label", label, "--json"] + arguments, pins: ["2580"])
                try expectTaken(refused, "already has the \(kind) ‘\(label)’")
            }
        }
        try expectTaken(
            try await machine.run("key", "rename", "r", "s", "--json"), "the SSH key ‘s’")
        #expect(try await machine.run("key", "rename", "r", "r").status == 0)
        #expect(try await machine.run("key", "list").output.split(separator: "\n").count == 2)

        #expect(
            try await machine.run("ssh", "export", "r").errors.contains(
                "the key ‘r’ is not an SSH key"))
        for command in [["sign", "s", "/dev/null"], ["delete", "s"]] {
            let refused = try await machine.run(["key"] + command, pins: ["2580"])
            #expect(refused.status == 10)
            #expect(refused.errors.contains("the key ‘s’ is an SSH key"), "\(refused.errors)")
            #expect(refused.errors.contains("which ‘latchkey key delete "), "\(refused.errors)")
        }
        #expect(try await machine.run("status", "--json").json()["sshKeys"] == 1)
        #expect(try await machine.run("status").output.contains("SSH keys:         1"))
        // The name stays the same when the use of the key changes.
        #expect(try await machine.run("ssh", "remove", "s").status == 0)
        #expect(try await machine.run("key", "sign", "s", "/dev/null", pins: ["2580"]).status == 0)
        #expect(try await machine.run("--container", "other", "key", "list").status == 0)
        let elsewhere = try await machine.run(
            "--container", "other", "key", "create", "--policy", "none", "--label", "r")
        #expect(elsewhere.status == 0, "\(elsewhere.errors)")
    }

    /// On another machine, a new label would not help.
    @Test func `a label in a store of another TPM is a wrong device`() async throws {
        var machine = try machine()
        _ = try await make(machine, "--ssh", "--label", "work")
        let other = try await SoftwareTPM(hasLockoutPassword: true)
        machine.environment["LATCHKEY_TCTI"] = other.tcti
        let refused = try await machine.run(
            "key", "create", "--ssh", "--label", "work", "--json", pins: ["2580"])
        #expect(refused.status == 8, "\(refused.output)")
        let error = try refused.json()["error"]
        #expect(error?["code"] == "wrongDevice")
        #expect(error?["recovery"]?.string?.contains("Choose another label") == false)
        #expect(error?["recovery"]?.string?.contains("latchkey store reset") == true)
        await other.cutPower()
    }

    @Test func `a deletion says whether a copy of the store can still use the key`() async throws {
        let machine = try machine()
        let copy = machine.directory.path(of: "copy")
        for (options, isInCopies) in [([], true), (["--revocable"], false)] as [([String], Bool)] {
            let made = try await machine.run(
                ["key", "create", "--json"] + options, pins: ["2580"])
            let id = try #require(made.json()["id"]?.string, "\(made.errors)")
            try? FileManager.default.removeItem(atPath: copy)
            try FileManager.default.copyItem(
                atPath: machine.directory.path(of: "data/latchkey"), toPath: copy)
            let deleted = try await machine.run("key", "delete", id, "--yes")
            #expect(deleted.output.contains("A copy of the store can still use it") == isInCopies)
            let signed = try await machine.run(
                "key", "sign", id, "/dev/null", "--store", copy, pins: ["2580"])
            #expect((signed.status == 0) == isInCopies, "\(signed.errors)")
        }
    }

    @Test func `a renamed SSH key keeps its rules, and its PIN works under the new label`()
        async throws
    {
        let machine = try machine()
        let id = try await make(machine, "--ssh", "--label", "s")
        _ = try await make(machine, label: "r")
        let rule = "SHA256:\(String(repeating: "x", count: 43))"
        let restricted = try await machine.run("ssh", "restrict", "s", "--host", rule)
        #expect(restricted.status == 0)
        #expect(restricted.output.contains("refused, also git commits"), "\(restricted.output)")
        try expectTaken(
            try await machine.run("key", "rename", "s", "r", "--json", pins: ["2580"]),
            "already has the key ‘r’")
        let wrong = try await machine.run("key", "rename", "s", "t", pins: ["0000"])
        #expect(wrong.status == 4, "\(wrong.errors)")
        let renamed = try await machine.run("key", "rename", "s", "t", "--json", pins: ["2580"])
        #expect(renamed.status == 0, "\(renamed.errors)")
        #expect(try renamed.json()["id"] == .string(id))
        #expect(try renamed.json()["label"] == "t")
        #expect(try renamed.json()["usedBy"] == "ssh")
        #expect(try await machine.run("ssh", "export", "s").status == 6)
        #expect(try await machine.run("ssh", "export", "t").output.hasSuffix(" t\n"))
        let listed = try await machine.run("ssh", "list", "--json").json()
        #expect(listed["keys"]?.array?.first?["hosts"]?.array?.count == 1)
        #expect(try await machine.run("ssh", "remove", "t").status == 0)
        #expect(try await machine.run("key", "sign", "t", "/dev/null", pins: ["2580"]).status == 0)
    }

    @Test func `the advice for a token in a file of settings names the place, not the option`()
        async throws
    {
        let machine = try machine()
        _ = try await make(machine, label: "r")
        #expect(
            try await machine.run("config", "set", "token", "pkcs11:token=none").status == 0)
        let refused = try await machine.run("key", "sign", "r", "/dev/null")
        #expect(refused.status == 8, "\(refused.errors)")
        #expect(refused.errors.contains("‘latchkey config list’"), "\(refused.errors)")
        #expect(!refused.errors.contains("--token"), "\(refused.errors)")
        // What a key can prove does not depend on the configured hardware.
        let shown = try await machine.run("key", "show", "r", "--json")
        #expect(try shown.json()["isAttestable"] == .bool(true), "\(shown.errors)")
    }

    @Test func `the beginning of a key's ID, or the whole ID, is no label of another key`()
        async throws
    {
        let machine = try machine()
        let id = try await make(machine, label: "ab")
        for label in [String(id.prefix(6)), id, id.lowercased()] {
            let refused = try await machine.run(
                "key", "create", "--policy", "none", "--label", label, "--json")
            try expectTaken(refused, "is the beginning of the ID of the key \(id)")
        }
        #expect(try await machine.run("key", "show", String(id.prefix(6))).status == 0)
    }

    /// Two commands at once, or another program, can write such rows.
    @Test(arguments: [["--policy", "none"], ["--ssh"]])
    func `a label of two keys names neither, and the error has both IDs`(other: [String])
        async throws
    {
        let machine = try machine()
        let first = try await make(machine, label: "twice")
        let made = try await machine.run(
            ["key", "create", "--json", "--label", "other"] + other, pins: ["2580"])
        let second = try #require(made.json()["id"]?.string)
        let row = (other == ["--ssh"] ? "ssh.key." : "") + second
        try store(
            machine, row,
            storedKey(machine, row).replacing(#""label":"other""#, with: #""label":"twice""#))
        for command in [
            ["key", "sign", "twice", "/dev/null"], ["key", "show", "twice"],
            ["key", "rename", "twice", "new"], ["ssh", "export", "twice"],
            ["pin", "change", "twice"],
        ] {
            let refused = try await machine.run(command, pins: ["2580"])
            #expect(refused.status == 2, "\(command)")
            #expect(
                refused.errors.contains("‘twice’ names 2 keys of the container ‘default’"),
                "\(refused.errors)")
            for id in [first, second] { #expect(refused.errors.contains("\(id) has this label")) }
        }
        #expect(try await machine.run("key", "show", first).status == 0)
        #expect(try await machine.run("key", "show", second).status == 0)
    }
}
