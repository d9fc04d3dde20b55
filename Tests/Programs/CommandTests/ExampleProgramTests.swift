import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The programs of `Examples/`, as the transcripts of its README show them: at a terminal, with a
/// software TPM and the reference server.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "python3"),
    .timeLimit(.minutes(15)))
struct ExampleProgramTests {
    @Test(arguments: ["vault store", "build/debug/login", "locker encrypt", "build/debug/notes\n"])
    func `the README shows what a program prompts for and prints`(command: String) async throws {
        let transcript = try Transcript(containing: command, in: "Examples/README.md")
        #expect(transcript.steps.count >= 1)
        try await Machine.withServer { try await transcript.check(on: $0) }
    }

    @Test func `tokens of a server are stored, used and revoked`() async throws {
        let transcript = try Transcript(
            containing: "credentials add", in: "Examples/README.md")
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await IdentityProcess.withRunning(["--demo"]) { server in
            var machine = machine
            machine.environment["LATCHKEY_ENDPOINT"] = server.endpoint
            machine.environment["LATCHKEY_CLIENT_ID"] = server.clientID
            let answer = try await FormBrowser.tokenResponse(of: server)
            try answer.write(to: URL(filePath: machine.directory.path(of: "response.json")))
            try await transcript.check(on: machine)
        }
    }

    @Test func `a wrong PIN prints no secret`() async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let steps = try Transcript(containing: "vault store", in: "Examples/README.md").steps
        let stored = try await Transcript.run(steps[0], on: machine)
        #expect(stored.last == "The password is stored.", "\(stored)")
        let refused = try await Transcript.run(steps[1], on: machine, pin: "111111")
        #expect(refused.contains { $0.contains("2 attempts are left") }, "\(refused)")
        #expect(!refused.contains { $0.contains("hunter2") })
        let shown = try await Transcript.run(steps[1], on: machine)
        #expect(shown.last == "hunter2", "\(shown)")
    }

    @Test func `after the removal of the device the program logs in in the browser again`()
        async throws
    {
        let steps = try Transcript(containing: "debug/login", in: "Examples/README.md").steps
        try await Machine.withServer { machine in
            _ = try await Transcript.run(steps[0], on: machine)
            let (browser, server) = (
                try #require(machine.environment["BROWSER"]),
                try #require(machine.environment["LATCHKEY_ENDPOINT"])
            )
            try await program(browser, ["--remove-device", server])
            // The PIN once for the removed key, and twice for the new one.
            let again = Transcript.Step(
                command: steps[0].command, lines: ["PIN:"] + steps[0].lines)
            let shown = try await Transcript.run(again, on: machine)
            #expect(shown.contains { $0.hasPrefix("The server's page opens") }, "\(shown)")
            #expect(shown.last == "You are alice.", "\(shown)")
        }
    }
}
