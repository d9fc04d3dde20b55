import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Subprocess
import SystemPackage
import Testing

/// A result that cannot be written is an error for every command.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct OutputTests {
    /// Shell commands that make standard output fail.
    enum Sink: String, CaseIterable, Sendable {
        /// Every write fails with ENOSPC.
        case full = "exec >/dev/full"
        /// Every write fails with EBADF.
        case closed = "exec >&-"
        /// Every write fails with EPIPE: the reading end is closed.
        case unread =
            "mkfifo \"$FIFO\"; exec 3<>\"$FIFO\" 4>\"$FIFO\"; exec 3<&-; exec >&4 4>&-; rm \"$FIFO\""
    }

    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    /// Runs the tool with that output.
    private func run(
        _ arguments: [String], _ sink: Sink, on machine: Machine, pins: [String]? = nil
    ) async throws -> (status: Int32?, errors: String) {
        var variables = machine.environment.merging(["FIFO": machine.directory.path(of: "fifo")]) {
            $1
        }
        if let pins {
            let path = machine.directory.path(of: "pins-\(UInt64.random(in: 0 ... .max))")
            try Data(pins.map { "\($0)\n" }.joined().utf8).write(to: URL(filePath: path))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
            variables["LATCHKEY_PIN_SOURCE"] = "file:\(path)"
        }
        let script = sink.rawValue + "; exec \"$0\" \"$@\""
        let result = try await Subprocess.run(
            .path("/bin/sh"),
            arguments: Arguments(["-c", script, Products.latchkey.string] + arguments),
            environment: .custom(Machine.keys(variables)), output: .discarded,
            error: .string(limit: 65_536))
        let status: Int32? =
            if case .exited(let code) = result.terminationStatus { code } else { nil }
        return (status, result.standardError)
    }

    private func expectFailure(
        _ arguments: [String], on machine: Machine, pins: [String]? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for sink in Sink.allCases {
            let outcome = try await run(arguments, sink, on: machine, pins: pins)
            #expect(
                outcome.status == 1, "\(arguments) \(sink): \(outcome.errors)",
                sourceLocation: sourceLocation)
            #expect(
                outcome.errors.contains(
                    "Could not show the result: standard output cannot be written"),
                "\(arguments) \(sink): \(outcome.errors)", sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [
        ["status"], ["status", "--json"], ["key", "list", "--json"], ["--help"], ["help", "key"],
        ["key", "--help"],
        ["--version"], ["--generate-completion-script", "bash"],
    ])
    func `unwritable text, JSON, help and scripts are errors`(arguments: [String]) async throws {
        try await expectFailure(arguments, on: machine())
    }

    @Test func `unwritable keys, signatures and secrets are errors`() async throws {
        let machine = try self.machine()
        let created = try await machine.run(
            "key", "create", "--policy", "pin", "--json", pins: ["2580"])
        let id = try #require(created.json()["id"]?.string)
        let digest = String(repeating: "0a", count: 32)
        for arguments in [
            ["key", "show", id], ["key", "export", id, "--format", "pem"],
            ["key", "export", id, "--format", "jwk", "--json"],
            ["key", "sign", id, "--digest", digest],
            ["key", "sign", id, "--digest", digest, "--json"],
        ] {
            try await expectFailure(arguments, on: machine, pins: ["2580"])
        }
        let stored = try await machine.run(
            "vault", "store", "app", pins: ["2580"], input: "the secret")
        #expect(stored.status == 0, "\(stored.errors)")
        try await expectFailure(["vault", "show", "app"], on: machine, pins: ["2580"])
    }

    @Test func `an unwritable output does not replace an earlier error`() async throws {
        let machine = try self.machine()
        for sink in Sink.allCases {
            let outcome = try await run(["key", "show", "", "--json"], sink, on: machine)
            #expect(outcome.status == 2, "\(sink): \(outcome.errors)")
        }
    }
}
