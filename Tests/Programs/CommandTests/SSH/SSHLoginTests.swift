import Foundation
import LatchkeySimulators
import LatchkeyTesting
import Testing

/// Logins of OpenSSH, paramiko and asyncssh with the agent's keys.
@Suite(
    .softwareTPM, .requires(program: "swtpm"),
    .enabled(if: SSHServer.isInstalled, "needs openssh-server"),
    .timeLimit(.minutes(15)))
struct SSHLoginTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private func text(_ path: String) throws -> String {
        try String(contentsOfFile: path, encoding: .utf8)
    }

    @Test(arguments: ["ed25519", "ecdsa", "rsa"])
    func `ssh logs in, and the prompt names server, user and client`(_ hostKeyType: String)
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let server = try await SSHServer(
                "git.example.org", for: agent, authorized: text(key), hostKeyType: hostKeyType)
            let outcome = try await agent.client("ssh", server.login(agent) + ["echo", "hello"])
            #expect(outcome.output == "hello\n", "\(outcome.errors)")
            #expect(agent.prompts.count == 1)
            let prompt = try #require(agent.prompts.first)
            #expect(
                prompt.contains(
                    "log in to “git.example.org” as “\(NSUserName())”, with the SSH key “work” for “ssh”"
                ),
                "\(prompt)")
        }
    }

    @Test(.requires(program: "ssh-keygen"))
    func `a server whose name is hashed in known_hosts is named if a source has the name`()
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let server = try await SSHServer("git.example.org", for: agent, authorized: text(key))
            let hosts = agent.directory.path(of: "known_hosts")
            // As with HashKnownHosts, which Debian sets.
            try await program("ssh-keygen", ["-H", "-f", hosts])
            #expect(try !text(hosts).contains("git.example.org"))
            let named = try await agent.client("ssh", server.login(agent) + ["true"])
            #expect(named.status == 0, "\(named.errors)")
            let known = "log in to “git.example.org” as “\(NSUserName())”, with"
            #expect(agent.prompts.last?.contains(known) ?? false, "\(agent.prompts)")

            // The command line has an alias only.
            let options = server.login(agent).dropLast().filter { !$0.contains("HostKeyAlias") }
            let file = agent.directory.path(of: "alias")
            try Data("Host work\nHostKeyAlias git.example.org\n".utf8).write(
                to: URL(filePath: file))
            func logIn() async throws {
                let outcome = try await agent.client(
                    "ssh",
                    ["-F", file] + Self.pairs(Array(options)) + ["\(NSUserName())@work", "true"])
                #expect(outcome.status == 0, "\(outcome.errors)")
            }
            try await logIn()
            let prompt = try #require(agent.prompts.last)
            #expect(
                prompt.firstMatch(
                    of: /log in to SHA256:.{12} \(name hashed in known_hosts\) as “/) != nil,
                "\(prompt)")

            let folder = "\(try #require(agent.machine.environment["HOME"]))/.ssh"
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true)
            try FileManager.default.copyItem(atPath: file, toPath: "\(folder)/config")
            try await logIn()
            #expect(agent.prompts.last?.contains(known) ?? false, "\(agent.prompts)")
        }
    }

    /// The options `-o VALUE` in arguments of ssh, without `-F`.
    private static func pairs(_ arguments: [String]) -> [String] {
        zip(arguments, arguments.dropFirst()).filter { $0.0 == "-o" && $0.1 != "-o" }
            .flatMap { [$0.0, $0.1] }
    }

    @Test func `40 logins at the same time succeed`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let server = try await SSHServer("one", for: agent, authorized: text(key))
            try await withThrowingTaskGroup(of: Outcome.self) { group in
                for _ in 0..<40 {
                    group.addTask {
                        try await agent.client(
                            "ssh",
                            server.login(agent, ["-o", "ConnectTimeout=300"]) + ["echo", "hello"])
                    }
                }
                for try await outcome in group {
                    #expect(outcome.output == "hello\n", "\(outcome.errors)")
                }
            }
            #expect(agent.prompts.count == 40)
        }
    }

    @Test func `a wrong PIN does not log in`() async throws {
        let log = try await SSHAgent.withRunning(machine(), pin: "000000") { agent in
            let key = try await agent.createKey()
            let server = try await SSHServer("one", for: agent, authorized: text(key))
            #expect(try await agent.client("ssh", server.login(agent) + ["true"]).status == 255)
        }
        #expect(log.contains("the PIN is wrong"), "\(log)")
    }

    @Test func `a forwarded agent is refused unless the key allows forwarding`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let near = try await SSHServer("near", for: agent, authorized: text(key))
            let far = try await SSHServer("far", for: agent, authorized: text(key))
            let command = far.login(agent).map { "'\($0)'" }.joined(separator: " ")
            func loginThrough() async throws -> Outcome {
                try await agent.client(
                    "ssh", near.login(agent, ["-A"]) + ["ssh \(command) echo arrived"])
            }
            #expect(try await loginThrough().status == 255)
            #expect(agent.prompts.count == 1, "the login to the first server only")

            #expect(
                try await agent.machine.run("ssh", "restrict", "work", "--allow-forwarding").status
                    == 0)
            let allowed = try await loginThrough()
            #expect(allowed.output == "arrived\n", "\(allowed.errors)")
            #expect(agent.prompts.last?.contains(" to “far”") ?? false)
            #expect(agent.prompts.last?.contains("asked from the server “near”") ?? false)
        }
    }

    @Test func `destination rules are enforced along the chain of servers`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let near = try await SSHServer("near", for: agent, authorized: text(key))
            let far = try await SSHServer("far", for: agent, authorized: text(key))
            let hosts = agent.directory.path(of: "known_hosts")
            func restrict(_ rules: String...) async throws {
                let outcome = try await agent.machine.run(
                    ["ssh", "restrict", "work", "--known-hosts", hosts]
                        + rules.flatMap { ["--host", $0] })
                #expect(outcome.status == 0, "\(outcome.errors)")
            }
            func logsIn(to server: SSHServer, _ options: [String] = []) async throws -> Bool {
                try await agent.client("ssh", server.login(agent, options) + ["true"]).status == 0
            }
            let command = far.login(agent).map { "'\($0)'" }.joined(separator: " ")
            func reachesFar() async throws -> Bool {
                try await agent.client("ssh", near.login(agent, ["-A"]) + ["ssh \(command) true"])
                    .status == 0
            }
            try await restrict("near")
            #expect(try await logsIn(to: near))
            #expect(try await !logsIn(to: far))
            #expect(try await !reachesFar())
            try await restrict("near", "near>far")
            #expect(try await reachesFar())
            #expect(try await !logsIn(to: far), "only through the first server")
            try await restrict("near", "far>near")
            #expect(try await !reachesFar())
            try await restrict("stranger@near")
            #expect(try await !logsIn(to: near))
            // Without session-bind, a restricted key signs nothing.
            try await restrict("near")
            #expect(
                try await agent.client(
                    "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
                ).status != 0)
        }
    }

    @Test func `a rule names another port as known_hosts does`() async throws {
        let machine = try machine()
        let created = try await machine.run(
            "key", "create", "--ssh", "--label", "work", pins: [SSHAgent.pin])
        #expect(created.status == 0, "\(created.errors)")
        // The key of any server.
        let line = try await machine.run("ssh", "export", "work").output
        let hosts = machine.directory.path(of: "known_hosts")
        try Data("[127.0.0.1]:2222 \(line)".utf8).write(to: URL(filePath: hosts))
        func restrict(_ rule: String) async throws -> Outcome {
            try await machine.run(
                "ssh", "restrict", "work", "--known-hosts", hosts, "--host", rule)
        }
        let absent = try await restrict("127.0.0.1")
        #expect(absent.status == 6)
        #expect(absent.errors.contains("'[HOST]:PORT'"), "\(absent.errors)")
        let rule = try await restrict("ada@[127.0.0.1]:2222")
        #expect(rule.status == 0, "\(rule.errors)")
    }

    @Test func `a server accepts the certificate that the agent offers`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            try await program(
                "ssh-keygen",
                ["-q", "-t", "ed25519", "-N", "", "-f", agent.directory.path(of: "ca")])
            try await program(
                "ssh-keygen",
                [
                    "-q", "-s", agent.directory.path(of: "ca"), "-I", "ada's laptop", "-n",
                    NSUserName(), key,
                ])
            let file = agent.directory.path(of: "work-cert.pub")
            let stored = try await agent.machine.run("ssh", "certificate", "work", file, "--json")
            #expect(
                try stored.json()["certificate"]?["keyID"] == "ada's laptop", "\(stored.errors)")
            let server = try await SSHServer(
                "one", for: agent, authorized: "",
                authority: text(agent.directory.path(of: "ca.pub")))
            #expect(
                try await agent.client("ssh-add", ["-L"]).output.contains(
                    "ecdsa-sha2-nistp256-cert-v01"))
            let outcome = try await agent.client("ssh", server.login(agent) + ["echo", "hello"])
            #expect(outcome.output == "hello\n", "\(outcome.errors)")
            // One that servers refuse is stored with a warning, and still offered.
            for (days, words, note) in [
                ("20200101:20210101", "the certificate has expired", "expired"),
                ("20990101:20991231", "the certificate is not yet valid", "not yet valid"),
            ] {
                try await program(
                    "ssh-keygen",
                    [
                        "-q", "-s", agent.directory.path(of: "ca"), "-I", "old", "-V", days, "-n",
                        NSUserName(), key,
                    ])
                let old = try await agent.machine.run("ssh", "certificate", "work", file)
                #expect(old.status == 0)
                #expect(old.errors.contains(words), "\(old.errors)")
                let listed = try await agent.machine.run("ssh", "list").output
                #expect(listed.contains(" (\(note): servers refuse it)"), "\(listed)")
                let offered = try await agent.client("ssh-add", ["-l"]).output
                #expect(offered.contains("work (certificate, \(note))"), "\(offered)")
                #expect(try await agent.client("ssh", server.login(agent) + ["true"]).status == 255)
            }
            // A certificate of another key is not stored.
            _ = try await agent.createKey("other")
            #expect(try await agent.machine.run("ssh", "certificate", "other", file).status != 0)
            #expect(
                try await agent.machine.run("ssh", "certificate", "work", "--remove").status == 0)
            #expect(try await agent.client("ssh", server.login(agent) + ["true"]).status == 255)
        }
    }

    @Test(
        .enabled(if: PythonClients.areInstalled, "needs paramiko and asyncssh; see scripts/setup"))
    func `paramiko and asyncssh log in`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let server = try await SSHServer("one", for: agent, authorized: text(key))
            for script in [PythonClients.paramiko, PythonClients.asyncssh] {
                let outcome = try await agent.client(
                    PythonClients.interpreter, ["-c", script, server.proxyCommand, NSUserName()])
                #expect(outcome.output == "hello\n", "\(outcome.errors)")
            }
            #expect(agent.prompts.count == 2)
            // These clients do not name the server.
            #expect(
                agent.prompts.allSatisfy {
                    $0.contains("log in to a server that the program does not name as")
                })
        }
    }

    @Test func `keys on a token log in, with the PIN of the token`() async throws {
        let (machine, token) = try await Machine.withToken()
        try await SSHAgent.withRunning(machine, pin: "123456") { agent in
            let key = try await agent.createKey(pins: ["123456", "123456"])
            let server = try await SSHServer("one", for: agent, authorized: text(key))
            for _ in 0..<2 {
                let outcome = try await agent.client(
                    "ssh", server.login(agent) + ["echo", "hello"])
                #expect(outcome.output == "hello\n", "\(outcome.errors)")
            }
            #expect(agent.prompts.contains { $0.contains("log in to “one”") })
        }
        withExtendedLifetime(token) {}
    }

    @Test func `one agent serves keys of the TPM and of a token`() async throws {
        var (both, token) = try await Machine.withToken()
        both.environment["LATCHKEY_TCTI"] = try SoftwareTPM.current.tcti
        var withoutToken = both
        withoutToken.environment["LATCHKEY_TOKEN"] = nil
        let machine = both
        try await SSHAgent.withRunning(withoutToken) { agent in
            let first = try await agent.createKey("in-tpm")
            let made = try await machine.run(
                "key", "create", "--ssh", "--label", "on-token", pins: ["123456", "123456"])
            try #require(made.status == 0, "\(made.errors)")
            let second = try await agent.exportKey("on-token")
            #expect(try await agent.client("ssh-add", ["-L"]).output == text(first) + text(second))
            #expect(
                try await agent.client(
                    "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", first], input: "x"
                ).status == 0)
        }
        // The token's key, with the token's PIN.
        try await SSHAgent.withRunning(withoutToken, pin: "123456") { agent in
            let key = try await agent.exportKey("on-token")
            let signed = try await agent.client(
                "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x")
            #expect(signed.status == 0, "\(signed.errors)")
        }
        withExtendedLifetime(token) {}
    }
}

/// paramiko and asyncssh, which scripts/setup installs from PyPI.
enum PythonClients {
    static var interpreter: String {
        let environment = ProcessInfo.processInfo.environment
        let cache = environment["XDG_CACHE_HOME"] ?? "\(environment["HOME"] ?? "")/.cache"
        return "\(cache)/latchkey/ssh-clients/bin/python"
    }

    static var areInstalled: Bool { access(interpreter, X_OK) == 0 }

    static let paramiko = """
        import sys, paramiko
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        client.connect('one', username=sys.argv[2], sock=paramiko.ProxyCommand(sys.argv[1]), look_for_keys=False,
                       banner_timeout=300, auth_timeout=300)
        print(client.exec_command('echo hello')[1].read().decode(), end='')
        client.close()
        """

    static let asyncssh = """
        import asyncio, sys, asyncssh
        async def main():
            async with asyncssh.connect('one', username=sys.argv[2], proxy_command=sys.argv[1], known_hosts=None,
                                        config=None) as connection:
                print((await connection.run('echo hello')).stdout, end='')
        asyncio.run(main())
        """
}
