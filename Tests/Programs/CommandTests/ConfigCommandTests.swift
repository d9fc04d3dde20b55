import FoundationEssentials
import Glibc
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey config` and the user's configuration file.
@Suite(.timeLimit(.minutes(15)))
struct ConfigCommandTests {
    private func file(_ machine: Machine) -> String {
        machine.directory.path(of: "config/latchkey/config.json")
    }

    private func text(_ machine: Machine) throws -> String {
        try String(contentsOfFile: file(machine), encoding: .utf8)
    }

    private func setting(_ name: String, _ outcome: Outcome) throws -> JSON {
        try #require(outcome.json()["settings"]?.array?.first { $0["name"]?.string == name })
    }

    @Test func `set, get, list and unset change the user's file alone`() async throws {
        let machine = try Machine(tcti: nil)
        let before = try await machine.run("config", "get", "endpoint", "--json")
        #expect(before.status == 6)
        let set = try await machine.run(
            "config", "set", "endpoint", "https://id.example.org", "--json")
        #expect(
            try set.json() == [
                "name": "endpoint", "value": "https://id.example.org",
                "file": .string(file(machine)),
            ])
        #expect(try await machine.run("config", "set", "allow-short-pin", "false").status == 0)
        #expect(
            try text(machine) == """
                {
                  "allow-short-pin" : false,
                  "endpoint" : "https://id.example.org"
                }

                """)
        let modes = try [file(machine), machine.directory.path(of: "config/latchkey")].map {
            try FileManager.default.attributesOfItem(atPath: $0)[.posixPermissions] as? Int
        }
        #expect(modes == [0o600, 0o700])
        #expect(
            try await machine.run("config", "get", "endpoint").output == "https://id.example.org\n")
        #expect(try await machine.run("config", "unset", "endpoint").status == 0)
        #expect(try await machine.run("config", "unset", "endpoint").status == 6)
        #expect(try await machine.run("config", "get", "endpoint").status == 6)
        let names = try FileManager.default.contentsOfDirectory(
            atPath: machine.directory.path(of: "config/latchkey"))
        #expect(names == ["config.json"])
    }

    @Test func `list shows each value with the place that it comes from`() async throws {
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("config", "set", "container", "filed").status == 0)
        #expect(try await machine.run("config", "set", "token-login", "pin").status == 0)
        let outcome = try await machine.run(
            "config", "list", "--json", "--client-id", "given",
            extra: ["LATCHKEY_TOKEN_LOGIN": "reader", "TPM2TOOLS_TCTI": "swtpm:port=1"])
        func expect(_ name: String, _ value: JSON, _ source: String, _ place: JSON) throws {
            #expect(
                try setting(name, outcome)
                    == .object([
                        "name": .string(name), "value": value, "source": .string(source),
                        "place": place, "isFixed": false,
                    ]))
        }
        try expect("client-id", "given", "option", "--client-id")
        try expect("token-login", "reader", "variable", "LATCHKEY_TOKEN_LOGIN")
        try expect("container", "filed", "user", .string(file(machine)))
        try expect("tcti", "swtpm:port=1", "variable", "TPM2TOOLS_TCTI")
        try expect("minimum-policy", "none", "default", nil)
        try expect(
            "store", .string(machine.directory.path(of: "data/latchkey")), "default", nil)
        try expect("endpoint", nil, "default", nil)
        let lines = try await machine.run("config", "list").output.split(separator: "\n")
        #expect(lines.contains("container  filed  \(file(machine))"))
        #expect(lines.contains("endpoint  not set"))
    }

    @Test func `a value that a variable overrides is stored with a warning`() async throws {
        let machine = try Machine(tcti: nil)
        let outcome = try await machine.run(
            "config", "set", "client-id", "app", extra: ["LATCHKEY_CLIENT_ID": "other"])
        #expect(outcome.status == 0)
        #expect(outcome.errors.contains("LATCHKEY_CLIENT_ID overrides the file."))
    }

    @Test(arguments: [
        ("endpoint", "http://example.org"), ("endpoint", "https://example.org/?a"),
        ("trusted-origins", "https://example.org/path"), ("token", "x"),
        ("token-login", "face"), ("token-isolation", "some"), ("pin-source", "env:PIN"),
        ("tcti", "device:/etc/passwd"), ("container", "a\u{202E}b"), ("agent-socket", "relative"),
        ("minimum-policy", "strong"), ("allow-short-pin", "yes"), ("endpoint", ""),
    ])
    func `a value that the programs refuse is not stored`(name: String, value: String)
        async throws
    {
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("config", "set", "client-id", "app").status == 0)
        let before = try text(machine)
        let outcome = try await machine.run("config", "set", name, value, "--json")
        #expect(outcome.status == 2, "\(outcome)")
        let message = try outcome.json()["error"]?["message"]?.string ?? ""
        #expect(value.isEmpty || message.contains("\(name): "), "\(message)")
        #expect(try text(machine) == before)
    }

    @Test(arguments: [
        ["get", "endpont"], ["set", "client_id", "app"], ["unset", "clientID"], ["get", "nothing"],
    ])
    func `a mistyped name is answered with the nearest one and all names`(words: [String])
        async throws
    {
        let outcome = try await Machine(tcti: nil).run(["config"] + words)
        #expect(outcome.status == 2)
        let nearest = ["endpont": "endpoint", "client_id": "client-id", "clientID": "client-id"]
        if let name = nearest[words[1]] {
            #expect(outcome.errors.contains("(did you mean ‘\(name)’?)"), "\(outcome.errors)")
        } else {
            #expect(!outcome.errors.contains("did you mean"), "\(outcome.errors)")
        }
        #expect(outcome.errors.contains("agent-socket, allow-short-pin, client-id, container"))
    }

    @Test func `a wrong value in the file can be replaced and removed`() async throws {
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("config", "set", "client-id", "app").status == 0)
        for command in [["set", "token-login", "pin"], ["unset", "token-login"]] {
            try Data(#"{"token-login": "face", "container": "c"}"#.utf8).write(
                to: URL(filePath: file(machine)))
            #expect(try await machine.run("status").status == 2)
            #expect(try await machine.run(["config"] + command).status == 0)
            #expect(try await machine.run("status", "--json").json()["container"] == "c")
        }
    }

    @Test func `a symbolic link stays, and its target is replaced`() async throws {
        let machine = try Machine(tcti: nil)
        try FileManager.default.createDirectory(
            atPath: machine.directory.path(of: "config/latchkey"),
            withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let target = machine.directory.path(of: "dotfile.json")
        try Data("{}".utf8).write(to: URL(filePath: target))
        try #require(symlink(target, file(machine)) == 0)
        #expect(try await machine.run("config", "set", "client-id", "app").status == 0)
        #expect(
            try FileManager.default.destinationOfSymbolicLink(atPath: file(machine)) == target)
        #expect(try String(contentsOfFile: target, encoding: .utf8).contains(#""app""#))
    }

    @Test func `nothing is written into a directory that other users can write`() async throws {
        let machine = try Machine(tcti: nil)
        let directory = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        try #require(chmod(directory, 0o777) == 0)
        let outcome = try await machine.run("config", "set", "client-id", "app")
        #expect(outcome.status == 2)
        #expect(outcome.errors.contains("other users can write \(directory)"), "\(outcome)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
    }

    @Test(.asRoot, .requires(program: "setpriv"), .requires(program: "unshare"))
    func `a file that cannot be read is an error of the system with the mode as advice`()
        async throws
    {
        let machine = try Machine(tcti: nil)
        #expect(try await machine.run("config", "set", "client-id", "app").status == 0)
        try #require(chmod(file(machine), 0) == 0)
        let outcome = try await AdministratorsFile(nil).run(
            "status", on: machine, as: AdministratorsFile.nobody)
        #expect(outcome.status == 2)
        #expect(
            outcome.errors == """
                latchkey: Could not read \(file(machine)): Permission denied.
                latchkey: Give your user the right to read it: chmod u+r '\(file(machine))'

                """)
    }
}
