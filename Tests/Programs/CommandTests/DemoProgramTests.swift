import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// `latchkey-demo`.
@Suite(.requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct DemoProgramTests {
    @Test func `the demo runs to the end and leaves nothing behind`() async throws {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        let temporary = machine.directory.path(of: "tmp")
        try FileManager.default.createDirectory(
            atPath: temporary, withIntermediateDirectories: false)
        machine.environment["TMPDIR"] = temporary
        let outcome = try await machine.run(program: Products.demo)
        #expect(outcome.status == 0, "\(outcome.errors)")
        for words in [
            "$ latchkey enable", "$ latchkey authenticate", "$ latchkey disable",
            "Logged in as alice", "That is all.",
        ] {
            #expect(outcome.output.contains(words))
        }
        // The wording of a prompt.
        #expect(outcome.output.contains(" (container ‘demo’). 3 attempts are left."))
        #expect(outcome.errors.isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary).isEmpty)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: machine.directory.path(of: "data"))
                .isEmpty)
    }

    @Test func `without swtpm the demo fails and says what to install`() async throws {
        var machine = try Machine(tcti: nil)
        machine.environment["PATH"] = machine.directory.path(of: "data")
        let outcome = try await machine.run(program: Products.demo)
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("swtpm"))
    }
}
