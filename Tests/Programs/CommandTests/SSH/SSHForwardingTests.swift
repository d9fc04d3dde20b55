import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// A server to which `ssh -A` forwards the agent, and which attacks it.
@Suite(
    .softwareTPM, .requires(program: "swtpm"),
    .enabled(if: SSHServer.isInstalled, "needs openssh-server"),
    .timeLimit(.minutes(15)))
struct SSHForwardingTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    private static let session = [UInt8](repeating: 9, count: 32)

    /// Until then, requests from now on get one prompt: the quiet time begins with its refusal.
    private static var endOfQuiet: ContinuousClock.Instant {
        .now + QuietTimes<Int>.shortest - .seconds(1)
    }

    /// The bytes of a public key in a file.
    private func blob(_ path: String) throws -> [UInt8] {
        let words = try String(contentsOfFile: path, encoding: .utf8).split(separator: " ")
        return Array(try #require(Data(base64Encoded: String(words[1]))))
    }

    private func allowForwarding(_ agent: SSHAgent, _ label: String = "work") async throws {
        let outcome = try await agent.machine.run("ssh", "restrict", label, "--allow-forwarding")
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    private func signsLocally(_ agent: SSHAgent, _ key: String) async throws -> Bool {
        try await agent.client(
            "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x"
        ).status == 0
    }

    @Test func `a forwarder gets no signature for another server than the prompt names`()
        async throws
    {
        let log = try await SSHAgent.withRunning(machine()) { agent in
            let path = try await agent.createKey()
            try await allowForwarding(agent)
            let (key, own) = (try blob(path), ForwarderKey())
            try await agent.withForwarding { socket in
                let hosts = agent.directory.path(of: "known_hosts")
                let known = try String(contentsOfFile: hosts, encoding: .utf8)
                try Data((known + own.line("forwarder")).utf8).write(to: URL(filePath: hosts))
                // A session with another server, bound with the forwarder's own host key.
                let client = try RawAgentClient(socket)
                #expect(try await client.request(own.bind(Self.session)) == RawAgentClient.success)
                let plain = RawAgentClient.login(Self.session, with: key)
                #expect(await client.request(plain) == RawAgentClient.failure)
                let other = RawAgentClient.login(
                    Self.session, with: key, boundTo: ForwarderKey().blob)
                #expect(await client.request(other) == RawAgentClient.failure)
                #expect(agent.prompts.isEmpty)
                let bound = RawAgentClient.login(Self.session, with: key, boundTo: own.blob)
                #expect(await client.request(bound)?.first == 14, "the control")
                let prompt = try #require(agent.prompts.first)
                #expect(
                    prompt.contains(
                        "to log in to “forwarder” as “ada”, asked from the server “near”, with"),
                    "\(prompt)")
            }
        }
        #expect(log.contains("the login request is not bound to a host key"), "\(log)")
    }

    @Test func `a key that does not allow forwarding signs nothing through a server`() async throws
    {
        let log = try await SSHAgent.withRunning(machine()) { agent in
            let (key, own) = (try blob(await agent.createKey()), ForwarderKey())
            try await agent.withForwarding { socket in
                // Such a key is not listed there, but a server can know it.
                let client = try RawAgentClient(socket)
                #expect(try await client.request(own.bind(Self.session)) == RawAgentClient.success)
                let login = RawAgentClient.login(Self.session, with: key, boundTo: own.blob)
                #expect(await client.request(login) == RawAgentClient.failure)
                #expect(agent.prompts.isEmpty)
                try await allowForwarding(agent)
                #expect(await client.request(login)?.first == 14, "the control")
            }
        }
        #expect(log.contains("the key does not allow forwarding"), "\(log)")
    }

    @Test func `a client that does not bind gets a prompt without a proven server`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try blob(await agent.createKey())
            let own = ForwarderKey()
            let hosts = agent.directory.path(of: "known_hosts")
            try Data(own.line("forwarder").utf8).write(to: URL(filePath: hosts))
            // As through a client that forwards the agent without saying so.
            let client = try RawAgentClient(agent.socket)
            #expect(try await client.request(own.bind(Self.session)) == RawAgentClient.success)
            let plain = RawAgentClient.login(Self.session, with: key)
            #expect(await client.request(plain)?.first == 14)
            let prompt = try #require(agent.prompts.first)
            #expect(prompt.contains("log in to “forwarder” (named by the program only) as “ada”"))
        }
    }

    @Test func `after a binding that cannot be read, the connection signs nothing`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try blob(await agent.createKey())
            let client = try RawAgentClient(agent.socket)
            let bind = try ForwarderKey().bind(Self.session)
            #expect(await client.request(bind + [0]) == RawAgentClient.failure)
            #expect(
                await client.request(RawAgentClient.login(Self.session, with: key))
                    == RawAgentClient.failure)
            #expect(agent.prompts.isEmpty)
            let other = try RawAgentClient(agent.socket)
            #expect(await other.request(RawAgentClient.login(Self.session, with: key))?.first == 14)
        }
    }

    @Test func `after a refusal, a forwarder gets no prompt for a time, and others do`()
        async throws
    {
        let log = try await SSHAgent.withRunning(machine(), forwarded: .refusal) { agent in
            let path = try await agent.createKey()
            try await allowForwarding(agent)
            let key = try blob(path)
            try await agent.withForwarding { socket in
                let end = Self.endOfQuiet
                var refused = 0
                for _ in 0..<25 {
                    let client = try RawAgentClient(socket)
                    #expect(
                        await client.request(RawAgentClient.commit(with: key))
                            == RawAgentClient.failure)
                    guard ContinuousClock.now < end else { break }
                    refused += 1
                    #expect(agent.prompts.count == 1)
                }
                #expect(refused >= 2, "the machine is too slow")
                #expect(agent.prompts[0].contains("asked from the server “near”"))
                let before = agent.prompts.count
                #expect(try await signsLocally(agent, path))
                #expect(agent.prompts.count == before + 1)
            }
        }
        #expect(log.contains("the user refused the last prompt"), "\(log)")
    }

    @Test func `a forwarder cannot choose another origin for each prompt`() async throws {
        try await SSHAgent.withRunning(machine(), forwarded: .refusal) { agent in
            let path = try await agent.createKey()
            try await allowForwarding(agent)
            let key = try blob(path)
            // A client that forwards the agent without saying so: the server binds with new keys.
            let end = Self.endOfQuiet
            var refused = 0
            for number in 0..<10 {
                let client = try RawAgentClient(agent.socket)
                let session = [UInt8](repeating: UInt8(number), count: 32)
                let bind = try ForwarderKey().bind(session, isForwarding: true)
                #expect(await client.request(bind) == RawAgentClient.success)
                #expect(
                    await client.request(RawAgentClient.commit(with: key)) == RawAgentClient.failure
                )
                guard ContinuousClock.now < end else { break }
                refused += 1
                #expect(agent.prompts.count == 1)
            }
            #expect(refused >= 2, "the machine is too slow")
            #expect(try await signsLocally(agent, path))
        }
    }

    @Test func `a forwarder that ends its own prompt gets no next one`() async throws {
        try await SSHAgent.withRunning(machine(), forwarded: .none) { agent in
            let path = try await agent.createKey()
            try await allowForwarding(agent)
            let key = try blob(path)
            try await agent.withForwarding { socket in
                var client: RawAgentClient? = try RawAgentClient(socket)
                client?.send(RawAgentClient.commit(with: key))
                #expect(await poll { agent.prompts.count == 1 })
                client = nil
                // Until the agent has noticed the end, the request waits; then it is refused.
                for _ in 0..<5 {
                    let next = try RawAgentClient(socket)
                    #expect(
                        await next.request(RawAgentClient.commit(with: key))
                            == RawAgentClient.failure)
                }
                #expect(agent.prompts.count == 1)
            }
        }
    }

    @Test func `a forwarder's waiting requests do not delay a local signature`() async throws {
        try await SSHAgent.withRunning(machine(), forwarded: .none) { agent in
            let path = try await agent.createKey()
            let local = try await agent.createKey("local")
            try await allowForwarding(agent)
            let key = try blob(path)
            try await agent.withForwarding { socket in
                let first = try RawAgentClient(socket)
                first.send(RawAgentClient.commit(with: key))
                #expect(await poll { agent.prompts.count == 1 })
                let others = try (0..<33).map { _ in try RawAgentClient(socket) }
                for client in others { client.send(RawAgentClient.commit(with: key)) }
                #expect(try await signsLocally(agent, local))
                #expect(agent.prompts[1].contains("with the SSH key “local”"))
                #expect(await first.answer() == RawAgentClient.failure, "its prompt was closed")
                #expect(try await signsLocally(agent, local))
                withExtendedLifetime(others) {}
            }
        }
    }

    @Test func `idle and slow channels do not stop local programs, nor the forwarding itself`()
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let path = try await agent.createKey()
            try await allowForwarding(agent)
            try await agent.withForwarding { socket in
                var channels: [RawAgentClient] = []
                for number in 0..<100 {
                    channels.append(try RawAgentClient(socket))
                    // Some stop within a message, some have had an answer.
                    if number % 3 == 1 { channels.last?.sendRaw([0, 0, 0, 9, 13]) }
                    if number % 3 == 2 {
                        #expect(await channels.last?.request(RawAgentClient.list)?.first == 12)
                    }
                }
                let listed = try await agent.client("timeout", ["20", "ssh-add", "-l"])
                #expect(listed.status == 0, "\(listed.errors)")
                #expect(try await signsLocally(agent, path))
                let last = try RawAgentClient(socket)
                #expect(await last.request(RawAgentClient.list)?.first == 12)
                // The oldest ones were closed.
                #expect(await channels[0].answer() == nil)
                withExtendedLifetime(channels) {}
            }
        }
    }

    @Test func `idle connections of a local program do not stop others`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            _ = try await agent.createKey()
            let clients = try (0..<200).map { _ in try RawAgentClient(agent.socket) }
            let listed = try await agent.client("timeout", ["20", "ssh-add", "-l"])
            #expect(listed.status == 0, "\(listed.errors)")
            #expect(await clients[0].answer() == nil)
            #expect(await clients[199].request(RawAgentClient.list)?.first == 12)
        }
    }

    @Test(.requires(program: "softhsm2-util"))
    func `an earlier proof serves no forwarded request, nor data of no known form`() async throws {
        let (machine, token) = try await Machine.withToken()
        defer { withExtendedLifetime(token) {} }
        try await SSHAgent.withRunning(machine, pin: "123456") { agent in
            let path = try await agent.createKey(
                "work", ["--reuse", "300"], pins: ["123456", "123456"])
            let settings = ["--allow-forwarding", "--sign-anything"]
            let restricted = try await agent.machine.run(["ssh", "restrict", "work"] + settings)
            #expect(restricted.status == 0, "\(restricted.errors)")
            let key = try blob(path)
            try await agent.withForwarding { socket in
                func expectPrompts(
                    _ expected: Int, _ body: () async throws -> Void, _ comment: Comment? = nil
                ) async throws {
                    let before = agent.prompts.count
                    try await body()
                    #expect(agent.prompts.count - before == expected, comment)
                }
                func local() async throws {
                    let isSigned = try await signsLocally(agent, path)
                    #expect(isSigned)
                }
                func remote() async throws {
                    let client = try RawAgentClient(socket)
                    let answer = await client.request(RawAgentClient.commit(with: key))
                    #expect(answer?.first == 14)
                }
                func unknown() async throws {
                    let data = Array("anything".utf8)
                    let client = try RawAgentClient(agent.socket)
                    let answer = await client.request(RawAgentClient.signature(of: data, with: key))
                    #expect(answer?.first == 14)
                }
                try await expectPrompts(1, local)
                try await expectPrompts(0, local, "the control")
                for request in [remote, unknown] {
                    try await expectPrompts(1, request)
                    try await expectPrompts(1, request)
                    try await expectPrompts(1, local, "it starts no reuse time either")
                    try await expectPrompts(0, local, "the control")
                }
            }
        }
    }
}
