import Foundation
import LatchkeyPlatform
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A running `ssh-agent` with one key in software.
final class OpenSSHAgent: Sendable {
    private let directory: TemporaryDirectory
    private let process: RunningProgram

    var socket: String { directory.path(of: "agent") }
    /// The file of the private key; the public one is next to it.
    var key: String { directory.path(of: "software") }

    private init() async throws {
        directory = try TemporaryDirectory()
        let socket = directory.path(of: "agent")
        process = try RunningProgram(
            URL(filePath: "/usr/bin/env"), ["ssh-agent", "-D", "-a", socket])
        #expect(await poll { UNIXSocketAddress(path: socket)?.isServed == true })
        try await program(
            "ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "software", "-f", key])
    }

    /// Runs `body` with an agent that has the key, then ends the agent.
    static func withRunning(_ body: (OpenSSHAgent) async throws -> Void) async throws {
        let agent = try await OpenSSHAgent()
        try await withTeardown({ await agent.process.stop() }) {
            try await agent.add()
            try await body(agent)
        }
    }

    /// Adds the key, directly.
    func add(_ options: [String] = []) async throws {
        try await program(
            "ssh-add", ["-q"] + options + [key], environment: ["SSH_AUTH_SOCK": socket])
    }

    /// The lines of `ssh-add -L`, asked directly.
    func list() async throws -> String {
        let listed = try await program(
            "sh", ["-c", "ssh-add -L || true"], environment: ["SSH_AUTH_SOCK": socket])
        return listed
    }

    func stop() async { await process.stop() }
}

/// An agent that answers each message with given bytes, or never.
final class ScriptedAgent: Sendable {
    let directory: TemporaryDirectory
    private let server: ConnectionServer

    var socket: String { directory.path(of: "scripted") }

    /// - Parameter answer: The bytes with their length; nil to wait for the end of the connection.
    init(_ answer: @escaping @Sendable (_ message: [UInt8]) -> [UInt8]?) throws {
        directory = try TemporaryDirectory()
        let address = try #require(UNIXSocketAddress(path: directory.path(of: "scripted")))
        server = ConnectionServer(try address.listeningSocket(queue: 16), limit: 64) { client in
            { Self.serve(client, answer) }
        }
        #expect(server.start())
    }

    deinit { server.stop() }

    private static func serve(_ client: Int32, _ answer: ([UInt8]) -> [UInt8]?) {
        func read(_ count: Int) -> [UInt8]? {
            var bytes: [UInt8] = []
            while bytes.count < count {
                var part = [UInt8](repeating: 0, count: count - bytes.count)
                _ = try? Poll.wait(for: client, POLLIN, until: nil)
                let more = Glibc.read(client, &part, part.count)
                guard more > 0 else { return nil }
                bytes += part.prefix(more)
            }
            return bytes
        }
        while let length = read(4), let message = read(length.reduce(0) { $0 << 8 | Int($1) }) {
            guard let bytes = answer(message) else { continue }
            guard !bytes.isEmpty else { return }
            _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
    }
}
