import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyServices
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// A machine whose errors are followed.
struct Advised {
    var machine: Machine
    /// What the user types when a program of another package reads standard input.
    var typed = ""

    /// Runs a command that must fail, and returns the next step.
    ///
    /// - Parameter actions: Those that the next step must name.
    func advice(
        of arguments: [String], _ actions: Recovery.Action..., pins: [String]? = nil,
        input: String = "", status: Int32? = nil
    ) async throws -> String {
        let outcome = try await machine.run(arguments + ["--json"], pins: pins, input: input)
        try #require(outcome.status != 0, "\(outcome.output)")
        if let status { #expect(outcome.status == status, "\(outcome.output)") }
        let advice = try #require(outcome.json()["error"]?["recovery"]?.string)
        for action in actions {
            try #require(advice.contains(action.command), "\(outcome.output)")
        }
        return advice
    }

    /// Runs the command that an action names, with its placeholders replaced.
    @discardableResult
    func run(
        _ action: Recovery.Action, replacing names: [String: String] = [:],
        adding arguments: [String] = [], pins: [String]? = nil, input: String = ""
    ) async throws -> Outcome {
        let named = try #require(action.command.firstMatch(of: /‘latchkey ([^’]+)’/)?.output.1)
        let words = named.split(separator: " ").map { names[String($0)] ?? String($0) }
        return try await succeed(words + arguments, pins: pins, input: input)
    }

    @discardableResult
    func succeed(_ arguments: [String], pins: [String]? = nil, input: String = "")
        async throws -> Outcome
    {
        let outcome = try await machine.run(arguments, pins: pins, input: input)
        try #require(outcome.status == 0, "\(arguments): \(outcome.output)\(outcome.errors)")
        return outcome
    }

    /// Runs `body` while the user touches the fingerprint reader.
    @discardableResult
    func touching<R>(_ body: () async throws -> R) async throws -> R {
        let reader = try VirtualFingerprintReader.current
        async let shown: Void = reader.present(.finger("mine"))
        let result = try await body()
        try await shown
        return result
    }

    /// The same at a server.
    func at(_ server: IdentityProcess) throws -> Advised {
        Advised(machine: try machine.at(server), typed: typed)
    }

    /// Runs a command line as an administrator: `sudo` asks nobody, and the user types ``typed`` at
    /// each command.
    func shell(_ command: String) async throws {
        let name = "sudo-\(UInt32.random(in: 0 ... .max))"
        let folder = machine.directory.path(of: name)
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false)
        try machine.directory.makeScript(
            "\(name)/sudo", "#!/bin/sh\nprintf '%s\\n' \"$TYPED\" | \"$@\"\n")
        let outcome = try await machine.run(
            ["-c", command],
            extra: ["PATH": "\(folder):/usr/local/bin:/usr/bin:/bin", "TYPED": typed],
            program: FilePath("/bin/sh"))
        try #require(outcome.status == 0, "\(command): \(outcome.errors)")
    }

    /// A file with one PIN.
    func pinFile(_ pin: String) throws -> String {
        let path = machine.directory.path(of: "pin")
        try Data("\(pin)\n".utf8).write(to: URL(filePath: path))
        try #require(chmod(path, 0o600) == 0)
        return path
    }
}
