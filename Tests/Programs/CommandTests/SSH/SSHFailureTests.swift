import Foundation
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The prompts and messages for a signature that fails.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "ssh-keygen"),
    .timeLimit(.minutes(15)))
struct SSHFailureTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private func isSigned(_ agent: SSHAgent, _ key: String) async throws -> Bool {
        try await agent.client(
            "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
        ).status == 0
    }

    @Test func `after a wrong PIN there is one more prompt, with the attempts left`() async throws {
        let log = try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            // A right PIN does not reset the TPM's count.
            for (count, left) in [
                (2, "2 attempts are left."),
                (4, "One attempt is left before the TPM or token locks."),
            ] {
                try agent.mistypeNextPIN()
                #expect(try await isSigned(agent, key))
                #expect(agent.prompts.count == count)
                let prompt = try #require(agent.prompts.last)
                #expect(prompt.contains("\(left) The last PIN was wrong."), "\(prompt)")
            }
        }
        #expect(!log.contains("the PIN is wrong"), "\(log)")
    }

    @Test func `without a TPM, the agent's log says how to select one, also for a trial`()
        async throws
    {
        let log = try await SSHAgent.withRunning(Machine(tcti: "device:/nonexistent/tpm")) { _ in }
        #expect(log.contains("There is no TPM at /nonexistent/tpm"), "\(log)")
        for words in ["LATCHKEY_TCTI", "‘latchkey config set tcti TCTI’", "‘swtpm/start’"] {
            #expect(log.contains(words), "\(log)")
        }
        let other = try await SSHAgent.withRunning(machine()) { _ in }
        #expect(!other.contains("There is no TPM"), "\(other)")
    }

    @Test func `two wrong PINs end the request`() async throws {
        let log = try await SSHAgent.withRunning(machine(), pin: "000000") { agent in
            let key = try await agent.createKey()
            #expect(try await !isSigned(agent, key))
            #expect(agent.prompts.count == 2)
            let status = try await agent.machine.run("pin", "status", "--json").json()
            #expect(status["attemptsLeft"] == 1)
            // One wrong PIN locks the TPM: the prompt says so, and there is no second one.
            #expect(try await !isSigned(agent, key))
            #expect(agent.prompts.count == 3)
            #expect(agent.prompts[2].contains("One attempt is left before the TPM or token locks."))
            #expect(try await !isSigned(agent, key))
            #expect(agent.prompts.count == 3, "a locked TPM gets no prompt")
        }
        #expect(log.contains("the PIN is wrong; 1 attempt is left"), "\(log)")
        #expect(log.contains("locked out"), "\(log)")
    }

    @Test(.requires(program: "softhsm2-util"))
    func `a token that does not report its attempts gets one PIN`() async throws {
        let (machine, token) = try await Machine.withToken()
        defer { withExtendedLifetime(token) {} }
        try await SSHAgent.withRunning(machine, pin: "000000") { agent in
            let key = try await agent.createKey(pins: ["123456", "123456"])
            #expect(try await !isSigned(agent, key))
            #expect(agent.prompts.count == 1)
        }
    }

    @Test(.requires(program: "softhsm2-util"))
    func `without its token, the agent says which setting is missing`() async throws {
        let (machine, token) = try await Machine.withToken()
        defer { withExtendedLifetime(token) {} }
        var without = machine
        without.environment["LATCHKEY_TOKEN"] = nil
        let log = try await SSHAgent.withRunning(without, pin: "123456") { agent in
            let created = try await machine.run(
                "key", "create", "--ssh", "--label", "work", pins: ["123456", "123456"])
            #expect(created.status == 0, "\(created.errors)")
            let key = try await agent.exportKey("work")
            #expect(try await !isSigned(agent, key))
            #expect(agent.prompts.isEmpty)
        }
        #expect(
            log.contains(
                "a token protects the container ‘default’, and no token is configured. Name the token. Set it with --token"
            ), "\(log)")
    }

    @Test(
        .requires(program: "dbus-daemon"), .requires(program: "gdbus"),
        .enabled(if: LogindMock.isInstalled, "needs python3-dbusmock"))
    func `the desktop shows why nothing was signed`() async throws {
        let directory = try TemporaryDirectory()
        let address = "unix:path=\(directory.path(of: "bus"))"
        let shown = directory.path(of: "shown")
        let bus = try RunningProgram(
            URL(filePath: "/usr/bin/dbus-daemon"),
            ["--session", "--address=\(address)", "--nofork", "--nopidfile"])
        try await withTeardown({ await bus.stop(SIGKILL) }) {
            #expect(
                await poll { FileManager.default.fileExists(atPath: directory.path(of: "bus")) })
            let desktop = try RunningProgram(
                URL(filePath: "/usr/bin/env"),
                [
                    "DBUS_SESSION_BUS_ADDRESS=\(address)", LogindMock.python, "-m", "dbusmock",
                    "--session", "--logfile", shown, "--template", "notification_daemon",
                ])
            try await withTeardown({ await desktop.stop(SIGKILL) }) {
                try await program(
                    "gdbus",
                    [
                        "wait", "--address", address, "--timeout", "240",
                        "org.freedesktop.Notifications",
                    ])
                try await checkNotifications(address, shown)
            }
        }
    }

    private func checkNotifications(_ address: String, _ file: String) async throws {
        func shows(_ text: String) async -> Bool {
            await poll {
                (try? String(contentsOfFile: file, encoding: .utf8))?.contains(text) ?? false
            }
        }
        try await SSHAgent.withRunning(
            machine(), pin: "000000", extra: ["DBUS_SESSION_BUS_ADDRESS": address]
        ) { agent in
            let key = try await agent.createKey("a<b>&")
            #expect(try await agent.client("ssh-add", ["-T", key]).status != 0)
            #expect(await shows("the data is neither a login request nor a file signature"))
            #expect(await shows("“a‹b›＆” for “ssh-add” (process"))
            #expect(try await !isSigned(agent, key))
            #expect(await shows("the PIN is wrong; 1 attempt is left"))
        }
    }

    @Test(.requires(program: "pinentry-curses"))
    func `doctor reports an agent that cannot prompt`() async throws {
        var machine = try machine()
        machine.environment["XDG_RUNTIME_DIR"] = machine.directory.path
        let folder = machine.directory.path(of: "latchkey")
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o700])
        func check() async throws -> JSON? {
            let report = try await machine.run("doctor", "--json").json()
            guard case .array(let checks)? = report["checks"] else { return nil }
            return checks.first { $0["name"] == "ssh-agent" }
        }
        let extra = ["PINENTRY_PROGRAM": "/usr/bin/pinentry-curses", "GPG_TTY": ""]
        let socket = "\(folder)/ssh-agent.sock"
        try await SSHAgent.withRunning(machine, extra: extra) { agent in
            _ = try await agent.createKey()
            try FileManager.default.createSymbolicLink(
                atPath: socket, withDestinationPath: agent.socket)
            let found = try await check()
            #expect(found?["state"] == "warning")
            #expect(
                found?["finding"]?.string?.contains("pinentry-curses has no terminal") ?? false,
                "\(String(describing: found))")
        }
        try FileManager.default.removeItem(atPath: socket)
        // Another agent at the path.
        try await OpenSSHAgent.withRunning { other in
            try FileManager.default.createSymbolicLink(
                atPath: socket, withDestinationPath: other.socket)
            let found = try await check()
            #expect(found?["state"] == "warning")
            #expect(found?["finding"]?.string?.contains("no latchkey-agent") ?? false)
        }
    }
}
