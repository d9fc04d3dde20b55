import FoundationEssentials
import Glibc
import LatchkeySimulators
import SystemPackage
import Testing

/// The same error ends each program with the same exit status.
@Suite(.timeLimit(.minutes(15)))
struct ExitStatusTests {
    /// The programs with the options of `ProgramOptions`.
    private static let programs: [(program: FilePath, arguments: [String])] = [
        (Products.latchkey, ["key", "list"]), (Products.agent, []), (Products.passkeys, []),
    ]

    private func statuses(
        _ arguments: [String], on machine: Machine, withBroker: Bool = false
    ) async throws -> [Int32?] {
        var statuses: [Int32?] = []
        for (program, words) in Self.programs
            + (withBroker ? [(Products.presenceBroker, [])] : [])
        {
            let outcome = try await machine.run(words + arguments, program: program)
            #expect(!outcome.errors.isEmpty)
            statuses.append(outcome.status)
        }
        return statuses
    }

    @Test(arguments: [
        ["--pin-source", "nonsense"], ["--pin-source="], ["--presence", "nobody"],
        ["--tcti", "device:/etc/hostname"], ["--token", "nonsense"], ["--token-login", "face"],
        ["--token-isolation", "some"], ["--container"],
    ])
    func `a wrong setting ends the tool and the services with 2`(arguments: [String]) async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        #expect(try await statuses(arguments, on: machine) == [2, 2, 2])
    }

    @Test func `wrong arguments and a wrong TPM end all programs with 2`() async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        #expect(
            try await statuses(["--bogus"], on: machine, withBroker: true) == [2, 2, 2, 2])
        let wrong = try Machine(tcti: "device:/etc/hostname")
        #expect(try await statuses([], on: wrong, withBroker: true) == [2, 2, 2, 2])
    }

    @Test(arguments: [#"{"pin-source": 7}"#, #"{"bogus": "x"}"#, "{"], [0o644, 0o646] as [mode_t])
    func `a wrong configuration file ends the tool and the services with 2`(
        content: String, mode: mode_t
    ) async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        let directory = machine.directory.path(of: "config/latchkey")
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
        let file = "\(directory)/config.json"
        try Data(content.utf8).write(to: URL(filePath: file))
        try #require(chmod(directory, 0o755) == 0 && chmod(file, mode) == 0)
        #expect(try await statuses([], on: machine) == [2, 2, 2])
    }

    @Test func `help and version of each program end with 0`() async throws {
        let machine = try Machine(tcti: "device:/nonexistent/tpm")
        for (program, words) in Self.programs + [(Products.presenceBroker, [])] {
            for option in ["--help", "--version"] {
                let outcome = try await machine.run(words + [option], program: program)
                #expect(outcome.status == 0 && outcome.errors.isEmpty)
                #expect(!outcome.output.isEmpty)
            }
        }
    }
}
