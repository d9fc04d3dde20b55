import Foundation
import Glibc
import LatchkeyPlatform
import LatchkeySSH
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// The agent with another one: OpenSSH's, hostile ones, and itself.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "ssh-agent"),
    .timeLimit(.minutes(15)))
struct OtherAgentTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private func lines(_ agent: SSHAgent) async throws -> [String] {
        try await agent.client("ssh-add", ["-L"]).output.split(separator: "\n").map(String.init)
    }

    private func text(_ path: String) throws -> String {
        try String(contentsOfFile: path, encoding: .utf8)
    }

    private func isSigned(_ agent: SSHAgent, _ key: String) async throws -> Bool {
        try await agent.client(
            "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
        ).status == 0
    }

    @Test func `the keys of both agents are listed and sign, own ones first`() async throws {
        try await OpenSSHAgent.withRunning { other in
            try await SSHAgent.withRunning(
                machine(), extra: ["SSH_AUTH_SOCK": other.socket]
            ) { agent in
                let own = try await agent.createKey()
                // ssh-keygen would sign with the file if the agent refuses.
                try FileManager.default.removeItem(atPath: other.key)
                let listed = try await lines(agent)
                #expect(
                    try listed.joined(separator: "\n") + "\n" == text(own)
                        + text("\(other.key).pub"))
                #expect(try await isSigned(agent, "\(other.key).pub"))
                #expect(agent.prompts.isEmpty)
                #expect(try await isSigned(agent, own))
                #expect(agent.prompts.count == 1)
                // The other agent is the user's; without it, the own keys stay.
                await other.stop()
                #expect(try await lines(agent).count == 1)
                #expect(try await isSigned(agent, own))
                #expect(try await !isSigned(agent, "\(other.key).pub"))
            }
        }
    }

    @Test(.enabled(if: SSHServer.isInstalled, "needs openssh-server"))
    func `ssh logs in with a key of the other agent`() async throws {
        try await OpenSSHAgent.withRunning { other in
            try await SSHAgent.withRunning(
                machine(), extra: ["LATCHKEY_AGENT_SOCKET": other.socket]
            ) { agent in
                _ = try await agent.createKey()
                let server = try await SSHServer(
                    "one", for: agent, authorized: text("\(other.key).pub"))
                let outcome = try await agent.client(
                    "ssh", server.login(agent) + ["echo", "hello"])
                #expect(outcome.output == "hello\n", "\(outcome.errors)")
                #expect(agent.prompts.isEmpty)
            }
        }
    }

    @Test func `ssh-add changes and locks the other agent, and the own keys stay`() async throws {
        try await OpenSSHAgent.withRunning { other in
            try await SSHAgent.withRunning(
                machine(), extra: ["SSH_AUTH_SOCK": other.socket]
            ) { agent in
                let own = try await agent.createKey()
                func add(_ arguments: String...) async throws -> Int32? {
                    try await agent.client("ssh-add", arguments).status
                }
                #expect(try await add("-D") == 0)
                #expect(try await lines(agent).count == 1)
                #expect(try await other.list().contains("no identities"))
                #expect(try await add(other.key) == 0)
                #expect(try await lines(agent).count == 2)
                #expect(try await add("-d", other.key) == 0)
                #expect(try await lines(agent).count == 1)
                #expect(try await add("-d", own) != 0, "an own key")
                #expect(try await add(other.key) == 0)
                let locked = try await agent.shell("printf 'a\\na\\n' | setsid ssh-add -x")
                #expect(locked.status == 0, "\(locked.errors)")
                #expect(try await lines(agent).count == 1)
                #expect(try await isSigned(agent, own))
            }
        }
    }

    @Test(.enabled(if: SSHServer.isInstalled, "needs openssh-server"))
    func `a server uses the other agent's keys within its rules, and does not change it`()
        async throws
    {
        try await OpenSSHAgent.withRunning { other in
            let log = try await SSHAgent.withRunning(
                machine(), extra: ["SSH_AUTH_SOCK": other.socket]
            ) { agent in
                _ = try await agent.createKey()
                try await agent.withForwarding { socket in
                    func remote(_ arguments: String...) async throws -> Outcome {
                        try await agent.client(
                            "env", ["SSH_AUTH_SOCK=\(socket)", "ssh-add"] + arguments)
                    }
                    let before = try await remote("-L")
                    #expect(try before.output == text("\(other.key).pub"), "not the own key")
                    #expect(try await remote("-D").status != 0)
                    #expect(try await remote(other.key).status != 0)
                    #expect(try await other.list() == text("\(other.key).pub"))
                    // The key may only be used for logins from this machine.
                    try await other.add([
                        "-h", "near", "-H", agent.directory.path(of: "known_hosts"),
                    ])
                    #expect(try await lines(agent).count == 2, "the control")
                    #expect(try await remote("-L").output.contains("no identities"))
                }
            }
            #expect(log.contains("refused a server to change the other agent"), "\(log)")
        }
    }

    /// Answers of a hostile agent.
    private static let answers: [(name: String, bytes: [UInt8])] = [
        ("the end", []),
        ("a length of 4 GiB", [0xFF, 0xFF, 0xFF, 0xFF, 12]),
        ("a length of 0", [0, 0, 0, 0]),
        ("another type", [0, 0, 0, 1, 14]),
        ("a count of 4 billion", [0, 0, 0, 5, 12, 0xFF, 0xFF, 0xFF, 0xFF]),
        ("a key that is longer than the message", [0, 0, 0, 9, 12, 0, 0, 0, 1, 0, 0, 0, 9]),
        ("an empty key", [0, 0, 0, 13, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
        // An Ed25519 key of one byte, for which ssh refuses the whole list.
        (
            "an unreadable key",
            [0, 0, 0, 33, 12, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0, 11] + Array("ssh-ed25519".utf8)
                + [0, 0, 0, 1, 1, 0, 0, 0, 0]
        ),
    ]

    @Test func `another agent's invalid answers do not hide the own keys`() async throws {
        for answer in Self.answers {
            let other = try ScriptedAgent { $0.first == 11 ? answer.bytes : [0, 0, 0, 1, 5] }
            let log = try await SSHAgent.withRunning(
                machine(), extra: ["SSH_AUTH_SOCK": other.socket]
            ) { agent in
                let own = try await agent.createKey()
                #expect(try await lines(agent).count == 1, "\(answer.name)")
                #expect(try await isSigned(agent, own), "\(answer.name)")
            }
            #expect(log.contains("the other agent"), "\(answer.name): \(log)")
        }
    }

    @Test func `an agent that ends a connection at an unknown request is used`() async throws {
        // The end of the connection, and a list of one key of a type that ssh does not know.
        let list: [UInt8] =
            [0, 0, 0, 20, 12, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 3] + Array("odd".utf8)
            + [0, 0, 0, 0]
        let other = try ScriptedAgent { $0.first == 27 ? [] : list }
        let log = try await SSHAgent.withRunning(
            machine(), extra: ["SSH_AUTH_SOCK": other.socket]
        ) { agent in
            let own = try await agent.createKey()
            let script = """
                import socket, sys
                agent = socket.socket(socket.AF_UNIX)
                agent.settimeout(60)
                agent.connect(sys.argv[1])
                agent.sendall(b"\\0\\0\\0\\1\\x0b")
                print(b"odd" in agent.recv(4096))
                """
            let answer = try await agent.client("python3", ["-c", script, agent.socket])
            #expect(answer.output == "True\n", "\(answer.errors)")
            #expect(try await isSigned(agent, own))
        }
        #expect(!log.contains("the other agent"), "\(log)")
    }

    @Test func `the merged list fits an answer, and comments are one line`() async throws {
        var long = SSHWriter()
        long.string("odd")
        long.string([UInt8](repeating: 7, count: 200 * 1024))
        var short = SSHWriter()
        short.string("odd")
        let (first, key) = (short.bytes, long.bytes)
        var body = SSHWriter()
        body.byte(12)
        body.uint32(3)
        for (key, comment) in [(first, "a\u{1B}[2J\nb"), (first, "again"), (key, "long")] {
            body.string(key)
            body.string(comment)
        }
        var frame = SSHWriter()
        frame.string(body.bytes)
        let other = try ScriptedAgent { [answer = frame.bytes] in
            $0.first == 11 ? answer : [0, 0, 0, 1, 5]
        }
        try await SSHAgent.withRunning(
            machine(), extra: ["SSH_AUTH_SOCK": other.socket]
        ) { agent in
            // A client of its own: the scripted agent is this process, which would be a ring.
            let script = """
                import base64, socket, struct, sys
                agent = socket.socket(socket.AF_UNIX)
                agent.settimeout(60)
                agent.connect(sys.argv[1])
                agent.sendall(b"\\0\\0\\0\\1\\x0b")
                stream = agent.makefile("rb")
                print(base64.b64encode(stream.read(struct.unpack(">I", stream.read(4))[0])).decode())
                """
            let text = try await agent.client("python3", ["-c", script, agent.socket]).output
            let answer = try Array(
                #require(Data(base64Encoded: text, options: .ignoreUnknownCharacters)))
            let identities = try OtherAgentAnswer.identities(answer).identities
            #expect(identities.map(\.publicKey) == [first, key])
            #expect(!answer.contains(0x1B))
        }
    }

    @Test func `an agent that does not answer delays one request only`() async throws {
        let other = try ScriptedAgent { _ in nil }
        let log = try await SSHAgent.withRunning(
            machine(), extra: ["SSH_AUTH_SOCK": other.socket]
        ) { agent in
            let own = try await agent.createKey()
            for _ in 0..<2 { #expect(try await lines(agent).count == 1) }
            #expect(try await isSigned(agent, own))
        }
        #expect(log.ranges(of: "did not answer in time").count == 1, "\(log)")
    }

    @Test func `a client that ends does not leave its request with the other agent`() async throws {
        let other = try ScriptedAgent { $0.first == 13 ? nil : [0, 0, 0, 1, 5] }
        try await SSHAgent.withRunning(
            machine(), extra: ["SSH_AUTH_SOCK": other.socket]
        ) { agent in
            func open() throws -> Int {
                try FileManager.default.contentsOfDirectory(atPath: "/proc/\(agent.id)/fd").count
            }
            // A process apart, because the scripted agent is this one.
            let script = """
                import base64, signal, socket, struct, sys
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
                agent = socket.socket(socket.AF_UNIX)
                agent.settimeout(60)
                agent.connect(sys.argv[1])
                stream = agent.makefile("rb")
                agent.sendall(b"\\0\\0\\0\\1\\x0b")
                stream.read(struct.unpack(">I", stream.read(4))[0])
                print("listed", flush=True)
                signal.sigwait({signal.SIGUSR1})
                message = base64.b64decode(sys.argv[2])
                agent.sendall(struct.pack(">I", len(message)) + message)
                """
            let message = Data(RawAgentClient.commit(with: [1, 2, 3])).base64EncodedString()
            let client = try RunningProgram(
                URL(filePath: "/usr/bin/env"), ["python3", "-c", script, agent.socket, message])
            #expect(await client.output { $0.contains("listed") } == "listed\n")
            let before = try open()
            kill(client.id, SIGUSR1)
            #expect(try await poll { try open() <= before - 2 }, "both connections are closed")
        }
    }

    @Test func `an agent is not its own other agent, by any path`() async throws {
        let machine = try machine()
        let folder = machine.directory.path(of: "run")
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false,
            attributes: [.posixPermissions: 0o700])
        let (link, own) = ("\(folder)/link", "\(folder)/own")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: own)
        for path in [link, own] {
            let outcome = try await machine.run(
                "--socket", own, "--agent-socket", path, program: Products.agent)
            #expect(outcome.status == 2)
            #expect(outcome.errors.contains("is the socket of this agent"), "\(outcome.errors)")
        }
        for path in ["relative", ""] {
            let outcome = try await machine.run(
                "--socket", own, "--agent-socket", path, program: Products.agent)
            #expect(outcome.status == 2, "\(outcome.errors)")
        }
        // A link that appears later.
        let later = machine.directory.path(of: "later")
        try await SSHAgent.withRunning(machine, extra: ["LATCHKEY_AGENT_SOCKET": later]) { agent in
            _ = try await agent.createKey()
            try FileManager.default.createSymbolicLink(
                atPath: later, withDestinationPath: agent.socket)
            #expect(try await lines(agent).count == 1)
        }
    }

    @Test func `two agents that name each other list the keys of both once`() async throws {
        let (first, second) = (try machine(), try machine())
        let link = first.directory.path(of: "second")
        let log = try await SSHAgent.withRunning(
            first, extra: ["LATCHKEY_AGENT_SOCKET": link]
        ) { one in
            _ = try await one.createKey("one")
            try await SSHAgent.withRunning(
                second, extra: ["LATCHKEY_AGENT_SOCKET": one.socket]
            ) { two in
                let key = try await two.createKey("two")
                try FileManager.default.createSymbolicLink(
                    atPath: link, withDestinationPath: two.socket)
                #expect(
                    try await lines(one).map { $0.split(separator: " ").last } == ["one", "two"])
                #expect(
                    try await lines(two).map { $0.split(separator: " ").last } == ["two", "one"])
                #expect(try await isSigned(one, key))
                #expect(two.prompts.count == 1)
                // A key that no agent has comes back as a refusal, at once.
                let answer = await (try RawAgentClient(one.socket)).request(
                    RawAgentClient.commit(with: [1, 2, 3]))
                #expect(answer == RawAgentClient.failure)
            }
        }
        #expect(!log.contains("did not answer in time"), "\(log)")
    }

    @Test func `a ring of three agents answers at once`() async throws {
        let machines = [try machine(), try machine(), try machine()]
        let link = machines[0].directory.path(of: "second")
        let log = try await SSHAgent.withRunning(
            machines[0], extra: ["LATCHKEY_AGENT_SOCKET": link]
        ) { one in
            _ = try await one.createKey("one")
            try await SSHAgent.withRunning(
                machines[2], extra: ["LATCHKEY_AGENT_SOCKET": one.socket]
            ) { three in
                try await SSHAgent.withRunning(
                    machines[1], extra: ["LATCHKEY_AGENT_SOCKET": three.socket]
                ) { two in
                    _ = try await two.createKey("two")
                    try FileManager.default.createSymbolicLink(
                        atPath: link, withDestinationPath: two.socket)
                    #expect(
                        try await lines(one).map { $0.split(separator: " ").last } == [
                            "one", "two",
                        ])
                    // A key that no agent has comes back as a refusal.
                    let answer = await (try RawAgentClient(one.socket)).request(
                        RawAgentClient.commit(with: [1, 2, 3]))
                    #expect(answer == RawAgentClient.failure)
                }
            }
        }
        #expect(!log.contains("did not answer in time"), "\(log)")
    }
}
