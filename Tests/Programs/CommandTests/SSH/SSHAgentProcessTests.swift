import Foundation
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import SystemPackage
import Testing

/// The agent as a process: its socket, hostile clients, and the life of prompts.
@Suite(
    .softwareTPM, .requires(program: "swtpm"), .requires(program: "ssh-add"),
    .timeLimit(.minutes(15)))
struct SSHAgentProcessTests {
    private func machine() throws -> Machine { try Machine(tcti: SoftwareTPM.current.tcti) }

    /// A connection to the agent that sends any bytes.
    private final class Connection {
        let descriptor: Int32

        init(_ agent: SSHAgent) throws {
            descriptor = try #require(try UNIXSocketAddress(path: agent.socket)?.connectedSocket())
        }

        deinit { close(descriptor) }

        func send(_ bytes: [UInt8]) {
            _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }

        /// Reads until the agent closes the connection, or `count` bytes have arrived.
        func receive(_ count: Int) async -> [UInt8] {
            await withCheckedContinuation { continuation in
                Thread.detachNewThread { [descriptor] in
                    var bytes = [UInt8](repeating: 0, count: count)
                    var received = 0
                    while received < count {
                        let more = read(descriptor, &bytes[received], count - received)
                        guard more > 0 else { break }
                        received += more
                    }
                    continuation.resume(returning: Array(bytes.prefix(received)))
                }
            }
        }
    }

    private func lists(_ agent: SSHAgent) async throws -> Bool {
        try await agent.client("ssh-add", ["-L"]).status == 0
    }

    @Test func `a descriptor that was not open at the start is not a source of PINs`() async throws
    {
        let outcome = try await machine().run("--pin-source", "fd:9", program: Products.agent)
        #expect(outcome.status == 2)
        #expect(
            outcome.errors.contains("descriptor 9 was not open when the program started"),
            "\(outcome.errors)")
    }

    @Test func `hostile messages get a failure or a closed connection, and no prompt`() async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            _ = try await agent.createKey()
            // Lengths of 0, of more than 256 KiB and of 4 GiB close the connection.
            for length: [UInt8] in [[0, 0, 0, 0], [0, 4, 0, 1], [0xFF, 0xFF, 0xFF, 0xFF]] {
                let connection = try Connection(agent)
                connection.send(length)
                #expect(await connection.receive(1).isEmpty)
            }
            // Messages whose inner lengths lie, and unknown messages, fail.
            let failure: [UInt8] = [0, 0, 0, 1, 5]
            let connection = try Connection(agent)
            var generator = SystemRandomNumberGenerator()
            for type: UInt8 in 0...255 where type != 11 {
                let body =
                    [type]
                    + (0..<Int.random(in: 0...64)).map { _ in
                        UInt8.random(in: 0...255, using: &generator)
                    }
                connection.send([0, 0, 0, UInt8(body.count)] + body)
                let answer = await connection.receive(5)
                #expect(answer == failure || answer == [0, 0, 0, 1, 28], "\(body)")
            }
            #expect(try await lists(agent))
            #expect(agent.prompts.isEmpty)
        }
    }

    @Test func `slow and idle clients do not block others`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            _ = try await agent.createKey()
            var connections: [Connection] = []
            for number in 0..<60 {
                connections.append(try Connection(agent))
                // Half of them stop within a message.
                if number.isMultiple(of: 2) { connections.last?.send([0, 0, 0, 9, 13]) }
            }
            #expect(try await lists(agent))
            // The agent closes a connection that does not complete its message.
            #expect(await connections[0].receive(1).isEmpty)
            withExtendedLifetime(connections) {}
        }
    }

    @Test func `a client that only closes its sending side gets its answer, then the end`()
        async throws
    {
        try await SSHAgent.withRunning(machine()) { agent in
            let connection = try Connection(agent)
            connection.send([0, 0, 0, 1, 11])
            shutdown(connection.descriptor, Int32(SHUT_WR))
            #expect(await connection.receive(100) == [0, 0, 0, 5, 12, 0, 0, 0, 0])
        }
    }

    @Test(
        .requires(program: "setpriv"),
        .enabled(if: geteuid() == 0, "needs root, to become another user"))
    func `another user's connection is closed`() async throws {
        let log = try await SSHAgent.withRunning(machine()) { agent in
            _ = try await agent.createKey()
            #expect(try await agent.shell("stat -c %a \(agent.socket)").output == "600\n")
            // Not even wrong modes give another user access.
            chmod(agent.socket, 0o666)
            chmod(agent.directory.path, 0o755)
            let outcome = try await agent.client(
                "setpriv", ["--reuid=65534", "--regid=65534", "--clear-groups", "ssh-add", "-L"])
            #expect(outcome.status != 0 && outcome.output.isEmpty)
            #expect(try await lists(agent))
        }
        #expect(log.contains("refused the connection of another user"), "\(log)")
    }

    @Test func `the prompt closes when its client ends, and the next client gets its turn`()
        async throws
    {
        try await SSHAgent.withRunning(machine(), hangs: true) { agent in
            let key = try await agent.createKey()
            let file = agent.directory.path(of: "pinentry.pid")
            for _ in 0..<2 {
                try? FileManager.default.removeItem(atPath: file)
                let client = try RunningProgram(
                    URL(filePath: "/usr/bin/env"),
                    [
                        "-i", "PATH=/usr/bin:/bin", "SSH_AUTH_SOCK=\(agent.socket)", "ssh-keygen",
                        "-Y", "sign", "-n",
                        "file", "-f", key,
                    ], input: "x")
                var prompt: pid_t?
                #expect(
                    await poll {
                        prompt = (try? String(contentsOfFile: file, encoding: .utf8)).flatMap {
                            pid_t($0.trimmingCharacters(in: .whitespacesAndNewlines))
                        }
                        return prompt != nil
                    })
                let process = try #require(prompt)
                #expect(kill(process, 0) == 0)
                await client.stop(SIGKILL)
                #expect(await poll { kill(process, 0) != 0 }, "the prompt is closed")
            }
        }
    }

    @Test func `requests at the same time prompt one after another`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let key = try await agent.createKey()
            let outcome = try await agent.shell(
                """
                for number in 1 2 3 4; do
                    (echo $number | ssh-keygen -Y sign -n file -f \(key) >$number.sig) &
                done
                wait
                for number in 1 2 3 4; do test -s $number.sig; done
                """)
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(agent.turns == Array(repeating: ["begin", "end"], count: 4).flatMap(\.self))
        }
    }

    @Test(.requires(program: "python3")) func `systemd's socket is used`() async throws {
        let starter = """
            import os, socket, sys
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(sys.argv[1])
            listener.listen()
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
            environment = dict(os.environ, LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
            os.execve(sys.argv[2], sys.argv[2:], environment)
            """
        try await SSHAgent.withRunning(machine(), starter: ["python3", "-c", starter]) { agent in
            _ = try await agent.createKey()
            #expect(try await lists(agent))
        }
    }

    @Test func `an agent does not replace the socket of another one`() async throws {
        try await SSHAgent.withRunning(machine()) { agent in
            let second = try await agent.machine.run(
                "--socket", agent.socket, program: Products.agent)
            #expect(second.status == 7)
            #expect(second.errors.contains("another program serves"))
            let none = try await agent.machine.run(program: Products.agent)
            #expect(none.errors.contains("systemd passed no socket"))
        }
    }

    @Test func `the socket is removed when the agent ends`() async throws {
        let machine = try machine()
        for round in 0..<8 {
            let agent = try await SSHAgent(machine)
            // With and without a connection.
            let client = round.isMultiple(of: 2) ? try RawAgentClient(agent.socket) : nil
            if let client { #expect(await client.request(RawAgentClient.list)?.first == 12) }
            await agent.stop()
            #expect(access(agent.socket, F_OK) != 0)
        }
    }

    @Test func `of two agents that start at one path, one serves, and the other one ends`()
        async throws
    {
        let machine = try machine()
        for round in 0..<4 {
            let directory = try TemporaryDirectory()
            let socket = directory.path(of: "agent")
            let address = try #require(UNIXSocketAddress(path: socket))
            // Every second time, an earlier agent has left its socket.
            if round.isMultiple(of: 2) { close(try address.boundSocket()) }
            let agents = try (0..<2).map { _ in
                try RunningProgram(
                    URL(filePath: "/usr/bin/env"),
                    machine.environment.map { "\($0.key)=\($0.value)" }
                        + [Products.agent.string, "--socket", socket])
            }
            try await withTeardown({ for agent in agents { await agent.stop(SIGKILL) } }) {
                let first = await withTaskGroup(of: (Int, Int32).self) { group in
                    for (index, agent) in agents.enumerated() {
                        group.addTask { (index, await agent.wait()) }
                    }
                    let first = await group.next()
                    for agent in agents { agent.signal(SIGTERM) }
                    return first
                }
                let (loser, status) = try #require(first)
                #expect(status == 7)
                let errors = await agents[loser].remainder().errors
                #expect(errors.contains("another program serves"), "\(errors)")
            }
            #expect(access(socket, F_OK) != 0, "the other one served, and removed its socket")
        }
    }

    @Test(.requires(program: "tpm2_getcap"))
    func `a signature takes as many TPM commands as latchkey key sign`()
        async throws
    {
        let machine = try machine()
        let path = machine.directory.path(of: "traffic.pcap")
        let tcti = try #require(machine.environment["LATCHKEY_TCTI"])
        func commands() -> [UInt32] {
            TPMTraffic((try? Data(contentsOf: URL(filePath: path))) ?? Data()).commands
        }
        try await SSHAgent.withRunning(
            machine, extra: ["LATCHKEY_TCTI": "pcap:\(tcti)", "TCTI_PCAP_FILE": path]
        ) {
            agent in
            let key = try await agent.createKey()
            var counts: [Int] = []
            for _ in 0..<3 {
                let before = commands().count
                let signed = try await agent.client(
                    "ssh-keygen", ["-Y", "sign", "-n", "file", "-f", key], input: "x")
                #expect(signed.status == 0, "\(signed.errors)")
                counts.append(commands().count - before)
            }
            // The first signature also compares the TPM with that of the keys, and opens the record
            // keys: 1 and 4 commands.
            #expect(counts[0] <= 11, "\(counts)")
            #expect(counts[1...].allSatisfy { $0 <= 5 }, "\(counts)")
        }
    }
}
