import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// The notebook of `Examples/` with a software TPM, the real identity server and a scripted browser.
@Suite(.softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"), .timeLimit(.minutes(15)))
struct ExampleTests {
    private static let notes = Products.directory.appending("notes")

    /// Runs `body` with a machine that has the server's address and a scripted browser.
    private func withServer(_ body: (Machine) async throws -> Void) async throws {
        var machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await IdentityProcess.withRunning(database: machine.directory.path(of: "identity.sqlite")) { server in
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            machine.environment["BROWSER"] = try ScriptedBrowser(user: server.users[0], in: machine.directory).path
            try await body(machine)
        }
    }

    @Test func `log in, write, lock, read, and log in again with the PIN alone`() async throws {
        try await withServer { machine in
            let first = try await machine.run(
                pins: ["2580", "2580", "2580"],
                input: "login\nwrite buy milk\nwrite sow peas\nread\nlock\nread\nquit\n", program: Self.notes)
            #expect(first.status == 0, "\(first.errors)")
            #expect(first.output.contains("You are alice."), "\(first.output)")
            #expect(first.output.contains("Notes: 2."))
            #expect(first.output.contains("The notes are locked."))
            #expect(first.output.components(separatedBy: "- buy milk\n- sow peas\n").count == 3)

            var later = machine
            later.environment["BROWSER"] = "/bin/false"
            let second = try await later.run(
                pins: ["2580", "2580"], input: "login\nread\nlogout\nquit\n", program: Self.notes)
            #expect(second.status == 0, "\(second.errors)")
            #expect(second.output.hasPrefix("The notes are locked.\n"))
            #expect(second.output.contains("You are alice."), "\(second.output)")
            #expect(second.output.contains("- buy milk\n- sow peas\n"))
            #expect(second.output.contains("You are logged out."))
        }
    }

    @Test func `a wrong PIN shows no note and the attempts left`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let written = try await machine.run(
            pins: ["2580", "2580"], input: "write buy milk\nquit\n", program: Self.notes)
        #expect(written.output.contains("Notes: 1."), "\(written.output)")
        let refused = try await machine.run(pins: ["1111"], input: "read\nquit\n", program: Self.notes)
        #expect(refused.status == 0)
        #expect(!refused.output.contains("milk"))
        #expect(refused.output.contains("2 attempts are left"), "\(refused.output)")
    }
}
