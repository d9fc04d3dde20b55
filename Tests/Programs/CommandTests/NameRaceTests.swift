import FoundationEssentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// Two commands that give one name at the same time, as processes: the second one is refused, and
/// leaves nothing in the hardware.
@Suite(.requires(program: "swtpm"), .requires(program: "python3"), .timeLimit(.minutes(15)))
struct NameRaceTests {
    private static let pin = "258036"

    /// Runs the tool at a terminal, and another command while it waits at its first prompt.
    private func run(
        _ arguments: [String], on machine: Machine, input: String = "", at prompts: [String],
        typing pin: String = pin, meanwhile: () async throws -> Void
    ) async throws -> (status: String?, errors: String) {
        let terminal = try PseudoTerminal()
        let variables = machine.environment.merging(["LATCHKEY_PIN_SOURCE": "tty"]) { $1 }
        let launcher = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            ["-i"] + variables.map { "\($0)=\($1)" } + [
                "python3", "-c", TerminalCommandTests.launcher, terminal.path,
                Products.latchkey.string,
            ] + arguments, input: input)
        for (index, prompt) in prompts.enumerated() {
            try await terminal.wait(for: prompt)
            if index == 0 { try await meanwhile() }
            terminal.type("\(pin)\n")
        }
        let (output, errors) = await launcher.remainder()
        return (output.split(separator: "\n").last.map(String.init), errors)
    }

    private func keys(_ machine: Machine) async throws -> [JSON] {
        try #require(
            try await machine.run("key", "list", "--all", "--json").json()["keys"]?.array)
    }

    @Test(
        .softwareTPM,
        arguments: [
            (["--label", "new"], ["--policy", "none"]), (["--label", "new"], ["--ssh"]),
            (["--label", "new", "--revocable"], ["--policy", "none"]),
            (["--label", "new", "--ssh"], ["--policy", "none"]),
        ])
    func `a label that another key got during the prompt is refused`(
        command: [String], other: [String]
    ) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let before = try await machine.revocableCount()
        let lost = try await run(
            ["key", "create"] + command, on: machine, at: ["New PIN: ", "New PIN again: "]
        ) {
            let won = try await machine.run(
                ["key", "create", "--label", "new"] + other, pins: [Self.pin])
            #expect(won.status == 0, "\(won.errors)")
        }
        #expect(lost.status == "10", "\(lost)")
        #expect(lost.errors.contains("already has the"), "\(lost.errors)")
        #expect(try await machine.revocableCount() == before)
        #expect(try await keys(machine).map { $0["label"] } == ["new"])
        #expect(try await machine.run("key", "show", "new").status == 0)
    }

    @Test(.softwareTPM) func `a key is not renamed to a label that another key got meanwhile`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        try await machine.require("key", "create", "--label", "old", pins: [Self.pin])
        let lost = try await run(["key", "rename", "old", "new"], on: machine, at: ["PIN: "]) {
            try await machine.require("key", "create", "--policy", "none", "--label", "new")
        }
        #expect(lost.status == "10", "\(lost)")
        #expect(
            try await keys(machine).compactMap { $0["label"]?.string }.sorted() == ["new", "old"])
        let signed = try await machine.run("key", "sign", "old", "/dev/null", pins: [Self.pin])
        #expect(signed.status == 0, "\(signed.errors)")
    }

    @Test(.requires(program: "softhsm2-util"))
    func `the key whose label another key got is deleted from the token`() async throws {
        let (machine, token) = try await Machine.withToken()
        let create = ["key", "create", "--label", "new"]
        let lost = try await run(create, on: machine, at: ["PIN: "], typing: "123456") {
            let won = try await machine.run(create, pins: ["123456"])
            #expect(won.status == 0, "\(won.errors)")
        }
        #expect(lost.status == "10", "\(lost)")
        #expect(!lost.errors.contains("stays in the hardware"), "\(lost.errors)")
        let onToken = try await machine.run("token", "keys", "--json").json()["keys"]?.array
        #expect(onToken?.count == 1)
        #expect(try await keys(machine).count == 1)
        withExtendedLifetime(token) {}
    }

    @Test(.softwareTPM) func `a vault that another command stored during the prompt stays`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let before = try await machine.revocableCount()
        let lost = try await run(
            ["vault", "store", "v", "--biometrics", "--policy", "pin"], on: machine, input: "lost",
            at: ["New PIN: ", "New PIN again: "]
        ) {
            let won = try await machine.run("vault", "store", "v", input: "won")
            #expect(won.status == 0, "\(won.errors)")
        }
        #expect(lost.status == "10", "\(lost)")
        #expect(try await machine.run("vault", "show", "v").output == "won")
        #expect(try await machine.revocableCount() == before)
    }

    @Test(.softwareTPM) func `a label names one passkey, also if two commands give it at once`()
        async throws
    {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let ids = try await machine.storePasskeys("a.example", "b.example")
        @Sendable func rename(_ id: String, _ label: String) async throws -> Bool {
            while true {
                let outcome = try await machine.run("passkey", "rename", id, label)
                if outcome.status == 0 { return true }
                try #require(outcome.status == 10 || outcome.status == 7, "\(outcome.errors)")
                if outcome.errors.contains("another passkey has the label ‘\(label)’") {
                    return false
                }
                // The TPM serves one process at a time.
            }
        }
        for round in 0..<3 {
            async let one = rename(ids[0], "label \(round)")
            async let other = rename(ids[1], "label \(round)")
            let isRenamed = try await [one, other]
            #expect(isRenamed.count { $0 } == 1)
            let shown = try await machine.run("passkey", "show", "label \(round)", "--json").json()
            #expect(shown["id"]?.string == ids[isRenamed[0] ? 0 : 1])
        }
        // A label is found before the beginning of an ID.
        let start = String(ids[1].prefix(1))
        #expect(try await rename(ids[0], start))
        #expect(
            try await machine.run("passkey", "show", start, "--json").json()["id"]?.string == ids[0]
        )
        #expect(try await rename(ids[0], start), "its own label is not taken")
    }
}
