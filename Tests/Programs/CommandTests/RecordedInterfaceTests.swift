import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import SystemPackage
import Testing

/// The interface that scripts depend on, compared with the records in `Golden`: commands, options
/// and value names in `commands.txt`, the fields of JSON results in `json-fields.txt`. A change
/// adds lines, or fields to a line; it removes and renames none.
@Suite(.timeLimit(.minutes(15)))
struct RecordedInterfaceTests {
    private static let root = FilePath(#filePath).removingLastComponent().removingLastComponent()
        .removingLastComponent().removingLastComponent()

    private static func lines(of record: String) throws -> [String] {
        let path = FilePath(#filePath).removingLastComponent().appending("Golden/\(record)")
        return try String(contentsOfFile: path.string, encoding: .utf8).split(separator: "\n").map(
            String.init)
    }

    // MARK: Commands and options

    private struct Dump: Decodable {
        struct Command: Decodable {
            let commandName: String
            let arguments: [Argument]?
            let subcommands: [Command]?
        }

        struct Argument: Decodable, Sendable {
            struct Name: Decodable {
                let kind: String
                let name: String

                var text: String { (kind == "long" ? "--" : "-") + name }
            }

            let kind: String
            let names: [Name]?
            let valueName: String
            let isOptional: Bool
            let isRepeating: Bool
            let allValues: [String]?
            let defaultValue: String?

            /// - Parameter position: The place among the command's positional arguments, from 1.
            func line(position: Int) -> String {
                var words = [
                    kind, names?.map(\.text).sorted().joined(separator: " ") ?? "\(position)",
                ]
                if kind != "flag" { words.append("<\(valueName)>") }
                if !isOptional { words.append("required") }
                if isRepeating { words.append("repeating") }
                if let allValues, !allValues.isEmpty {
                    words.append("values=\(allValues.joined(separator: ","))")
                }
                if let defaultValue { words.append("default=\(defaultValue)") }
                return "  " + words.joined(separator: " ")
            }
        }

        let command: Command
    }

    private struct Page {
        let name: String
        let lines: Set<String>
        let isGroup: Bool
    }

    private static func pages(_ command: Dump.Command, in path: [String] = []) -> [Page] {
        guard command.commandName != "help" else { return [] }
        let path = path + [command.commandName]
        var position = 0
        var lines: Set<String> = []
        for argument in command.arguments ?? [] {
            if argument.kind == "positional" { position += 1 }
            lines.insert(argument.line(position: position))
        }
        let subcommands = command.subcommands ?? []
        return [
            Page(name: path.joined(separator: " "), lines: lines, isGroup: !subcommands.isEmpty)
        ]
            + subcommands.flatMap { pages($0, in: path) }
    }

    @Test func `commands, options and value names are the recorded ones`() async throws {
        let dump = try await Machine(tcti: nil).run("--experimental-dump-help")
        let pages = Self.pages(
            try JSONDecoder().decode(Dump.self, from: Data(dump.output.utf8)).command)
        let commands = pages.filter { !$0.isGroup }
        let shared = commands.dropFirst().reduce(commands.first?.lines ?? []) {
            $0.intersection($1.lines)
        }
        var lines = ["every command"] + shared.sorted()
        for page in pages.sorted(by: { $0.name < $1.name }) {
            lines +=
                [page.name] + (page.isGroup ? page.lines : page.lines.subtracting(shared)).sorted()
        }
        let recorded = try Self.lines(of: "commands.txt")
        for change in lines.difference(from: recorded) {
            switch change {
            case .insert(_, let line, _): Issue.record("commands.txt lacks the line ‘\(line)’")
            case .remove(_, let line, _): Issue.record("no command has the line ‘\(line)’")
            }
        }
        let manual = try String(
            contentsOf: URL(filePath: "\(Self.root)/packaging/man/latchkey.1"), encoding: .utf8)
        for command in commands {
            let words = command.name.split(separator: " ").dropFirst().joined(separator: " ")
            let entry = "\n.It Cm \(words)"
            #expect(
                manual.contains(entry + " ") || manual.contains(entry + "\n"),
                "the man page has no entry of ‘\(command.name)’")
        }
    }

    /// The check of a mistyped command knows which options before it have a value.
    @Test func `each option can precede a mistyped command`() async throws {
        let machine = try Machine(tcti: nil)
        let dump = try await machine.run("--experimental-dump-help")
        let root = try JSONDecoder().decode(Dump.self, from: Data(dump.output.utf8)).command
        let options = (root.arguments ?? []).filter { $0.kind != "positional" }
        #expect(options.count > 10)
        for option in options {
            for name in (option.names ?? []).map(\.text) {
                let outcome = try await machine.run(
                    [name] + (option.kind == "flag" ? [] : ["key"]) + ["key", "lst"])
                #expect(
                    outcome.errors.contains("Did you mean ‘latchkey key list’?"),
                    "\(name): \(outcome.errors)\(outcome.output)")
            }
        }
    }

    // MARK: JSON fields

    /// The names of a value's fields, sorted, nested ones in braces. The members of objects that a
    /// server or the user fills are left out.
    private static func fields(_ value: JSON) -> String {
        switch value {
        case .object(let members):
            members.keys.sorted().map { name in
                let nested =
                    ["userInfo", "claims", "tags"].contains(name)
                    ? "" : members[name].map(fields) ?? ""
                return nested.isEmpty ? name : "\(name){\(nested)}"
            }.joined(separator: " ")
        case .array(let values):
            Set(values.map(fields)).subtracting([""]).sorted().joined(separator: " | ")
        default: ""
        }
    }

    /// Runs the command with `--json` and compares the fields with the record.
    ///
    /// - Parameter name: The name in the record; nil for the first two words.
    @discardableResult
    private func expectRecorded(
        _ arguments: String..., as name: String? = nil, on machine: Machine, pins: [String]? = nil,
        input: String = "",
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> [String: JSON] {
        let outcome = try await machine.run(arguments + ["--json"], pins: pins, input: input)
        let result = try outcome.json(sourceLocation: sourceLocation)
        try Self.expectRecorded(
            result, as: name ?? arguments.prefix(2).joined(separator: " "),
            sourceLocation: sourceLocation)
        return result
    }

    /// Expects that a result has the recorded fields.
    static func expectRecorded(
        _ result: [String: JSON], as name: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let line = "\(name): \(fields(.object(result)))"
        #expect(
            try lines(of: "json-fields.txt").contains(line), "\(line)",
            sourceLocation: sourceLocation)
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `results for keys and PINs have the recorded fields`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let digest = String(repeating: "0a", count: 32)
        let created = try await expectRecorded(
            "key", "create", "--label", "k", on: machine, pins: ["2580"])
        let id = try #require(created["id"]?.string)
        try await expectRecorded("key", "list", on: machine)
        try await expectRecorded("key", "sign", id, "--digest", digest, on: machine, pins: ["2580"])
        try await expectRecorded(
            "key", "csr", id, "--subject", "CN=Ann", on: machine, pins: ["2580"])
        for format in ["pem", "jwk"] {
            try await expectRecorded(
                "key", "export", id, "--format", format, as: "key export \(format)", on: machine)
        }
        try await expectRecorded(
            "key", "attest", id, "--challenge", "MDEyMzQ1Njc4OWFiY2RlZg", on: machine)
        try await expectRecorded("key", "rename", id, "other", on: machine, pins: ["2580"])
        try await expectRecorded("pin", "change", on: machine, pins: ["2580", "1357"])
        try await expectRecorded("pin", "status", on: machine)
        try await expectRecorded(
            "key", "sign", id, "--digest", digest, as: "error of a wrong PIN", on: machine,
            pins: ["2580"])
        try await expectRecorded("doctor", as: "doctor", on: machine)
        try await expectRecorded("key", "delete", id, "--yes", on: machine)
        try await expectRecorded("key", "show", id, as: "error of an unknown key", on: machine)
        try await expectRecorded("bogus", as: "error of the usage", on: machine)
        try await expectRecorded("passkey", "list", on: machine)
        try await expectRecorded("passkey", "delete", "--all", on: machine)
    }

    @Test func `results for settings have the recorded fields`() async throws {
        let machine = try Machine(tcti: nil)
        try await expectRecorded("config", "set", "client-id", "app", on: machine)
        try await expectRecorded("config", "get", "client-id", on: machine)
        try await expectRecorded("config", "list", on: machine)
        try await expectRecorded("config", "unset", "client-id", on: machine)
    }

    @Test(.softwareTPM, .requires(program: "swtpm"))
    func `results for SSH keys have the recorded fields`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await expectRecorded(
            "key", "create", "--ssh", "--label", "k", as: "key create for SSH", on: machine,
            pins: ["2580"])
        let certificate = machine.directory.path(of: "k-cert.pub")
        let line =
            try await expectRecorded("ssh", "export", "k", on: machine)["publicKey"]?.string ?? ""
        try Data(line.utf8).write(to: URL(filePath: machine.directory.path(of: "k.pub")))
        try await program(
            "ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", machine.directory.path(of: "ca")])
        try await program(
            "ssh-keygen",
            [
                "-q", "-s", machine.directory.path(of: "ca"), "-I", "a", "-n", "ada",
                machine.directory.path(of: "k.pub"),
            ])
        try await expectRecorded("ssh", "certificate", "k", certificate, on: machine)
        try await expectRecorded(
            "ssh", "export", "k", "--certificate", as: "ssh export certificate", on: machine)
        try await expectRecorded(
            "ssh", "restrict", "k", "--host", "SHA256:\(String(repeating: "x", count: 43))",
            on: machine)
        try await expectRecorded("ssh", "list", on: machine)
        let installed = try await expectRecorded("ssh", "install", "--write", on: machine)
        #expect(installed["isConfigured"] == true)
        try await expectRecorded("ssh", "remove", "k", on: machine)
        try await expectRecorded("ssh", "add", "k", on: machine)
    }

    @Test(.softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"))
    func `results for logins and stored data have the recorded fields`() async throws {
        try await Machine.withServer { machine in
            try await expectRecorded("login", as: "login", on: machine)
            try await expectRecorded("enable", as: "enable", on: machine, pins: ["2580"])
            try await expectRecorded(
                "authenticate", as: "authenticate", on: machine, pins: ["2580"])
            try await expectRecorded("disable", as: "disable", on: machine)

            try await expectRecorded("locker", "start", on: machine, pins: ["2580"])
            try await expectRecorded("locker", "status", on: machine)
            try await expectRecorded("locker", "background", on: machine)
            let sealed = try await expectRecorded(
                "locker", "encrypt", "--level", "base", on: machine, input: "text")
            let text = try #require(sealed["encrypted"]?.string)
            try await expectRecorded("locker", "decrypt", on: machine, input: text)
            try await expectRecorded(
                "locker", "easy-access", "change", as: "locker easy-access change", on: machine,
                pins: ["2580", "1357"])
            try await expectRecorded("locker", "end", "--mode", "destroy", "--yes", on: machine)

            let answer = #"{"access_token":"a","token_type":"Bearer","expires_in":60}"#
            for command in ["remove", "revoke"] {
                let added = try await machine.run("credential", "add", "--json", input: answer)
                    .json()
                try await expectRecorded(
                    "credential", command, #require(added["id"]?.string), on: machine)
            }
            #expect(try await machine.run("vault", "store", "app", input: "secret").status == 0)
            try await expectRecorded("vault", "list", on: machine)
        }
    }

    @Test(.requires(program: "softhsm2-util"))
    func `results for tokens have the recorded fields`() async throws {
        let (machine, token) = try await Machine.withToken()
        try await expectRecorded("token", "list", on: machine)
        #expect(try await machine.run("key", "create", "--policy", "none").status == 0)
        try await expectRecorded("token", "keys", on: machine)
        try await expectRecorded("token", "pin", on: machine, pins: ["123456", "654321"])
        try await expectRecorded(
            "token", "init", "--label", "other", "--erase", on: machine,
            pins: [token.securityOfficerPIN, "123456"])
    }
}
