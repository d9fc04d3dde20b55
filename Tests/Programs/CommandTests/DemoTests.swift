import FoundationEssentials
import LatchkeySimulators
import LatchkeyTesting
import Testing

@Suite(.requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct DemoTests {
    @Test func `the demo runs to the end and leaves nothing behind`() async throws {
        var machine = try Machine(tcti: "device:/nonexistent/tpm")
        let temporary = machine.directory.path(of: "tmp")
        try FileManager.default.createDirectory(
            atPath: temporary, withIntermediateDirectories: false)
        machine.environment["TMPDIR"] = temporary
        let outcome = try await machine.run("demo")
        #expect(outcome.status == 0, "\(outcome.errors)")
        for words in [
            "latchkey enable", "latchkey authenticate", "latchkey disable", "Logged in as alice",
        ] {
            #expect(outcome.output.contains(words))
        }
        // The wording of a prompt at a terminal.
        #expect(outcome.output.contains(" (container ‘demo’). 3 attempts are left."))
        // On a busy machine the server may be slow.
        #expect(
            outcome.errors.split(separator: "\n").allSatisfy {
                $0.hasPrefix("latchkey: Waiting for ")
            })
        #expect(try FileManager.default.contentsOfDirectory(atPath: temporary).isEmpty)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: machine.directory.path(of: "data"))
                .isEmpty)
    }

    @Test func `with --json stdout has only the successful steps`() async throws {
        let outcome = try await Machine(tcti: nil).run("demo", "--json")
        #expect(outcome.status == 0)
        #expect(try outcome.json()["steps"]?.array?.count == 8)
        #expect(outcome.errors.contains("latchkey authenticate"))
    }

    @Test func `without swtpm the demo ends with 7 and says what to install`() async throws {
        var machine = try Machine(tcti: nil)
        machine.environment["PATH"] = machine.directory.path(of: "data")
        let outcome = try await machine.run("demo", "--json")
        #expect(outcome.status == 7)
        #expect(try outcome.json()["error"]?["recovery"]?.string?.contains("swtpm") == true)
    }
}
