import Crypto
import Foundation
import LatchkeyPlatform
import LatchkeySSH
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// A client of an agent that sends any messages, such as a server to which ssh forwards the agent.
final class RawAgentClient: Sendable {
    private let descriptor: Int32

    /// The time that one answer may take.
    private static let limit = 120

    init(_ socket: String) throws {
        descriptor = try #require(try UNIXSocketAddress(path: socket)?.connectedSocket())
        var time = timeval(tv_sec: Self.limit, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    static let failure: [UInt8] = [5]
    static let success: [UInt8] = [6]
    /// Requests the list of keys.
    static let list: [UInt8] = [11]

    func send(_ message: [UInt8]) {
        var frame = SSHWriter()
        frame.string(message)
        sendRaw(frame.bytes)
    }

    func sendRaw(_ bytes: [UInt8]) {
        _ = Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    }

    /// Reads the next answer; nil if the agent closed the connection.
    func answer() async -> [UInt8]? {
        let (answer, isLate) = await withCheckedContinuation { continuation in
            Thread.detachNewThread { [self] in
                let length = read(4).map { $0.reduce(0) { $0 << 8 | Int($1) } }
                let answer = length.flatMap { read($0) }
                let isLate = answer == nil && errno == EAGAIN
                continuation.resume(returning: (answer, isLate))
            }
        }
        #expect(!isLate, "the agent neither answers nor closes the connection")
        return answer
    }

    func request(_ message: [UInt8]) async -> [UInt8]? {
        send(message)
        return await answer()
    }

    private func read(_ count: Int) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            var part = [UInt8](repeating: 0, count: count - bytes.count)
            errno = 0
            let more = Glibc.read(descriptor, &part, part.count)
            guard more > 0 else { return nil }
            bytes += part.prefix(more)
        }
        return bytes
    }

    // MARK: Messages

    static func signature(of data: [UInt8], with key: [UInt8]) -> [UInt8] {
        var message = SSHWriter()
        message.byte(13)
        message.string(key)
        message.string(data)
        message.uint32(0)
        return message.bytes
    }

    /// A signature of `git`, with a random digest.
    static func commit(with key: [UInt8]) -> [UInt8] {
        var data = SSHWriter()
        data.raw("SSHSIG".utf8)
        data.string("git")
        data.string("")
        data.string("sha512")
        data.string((0..<64).map { _ in UInt8.random(in: 0...255) })
        return signature(of: data.bytes, with: key)
    }

    static func login(
        _ session: [UInt8], with key: [UInt8], boundTo hostKey: [UInt8]? = nil
    ) -> [UInt8] {
        var data = SSHWriter()
        data.string(session)
        data.byte(50)
        data.string("ada")
        data.string("ssh-connection")
        data.string(hostKey == nil ? "publickey" : "publickey-hostbound-v00@openssh.com")
        data.byte(1)
        data.string("ecdsa-sha2-nistp256")
        data.string(key)
        if let hostKey { data.string(hostKey) }
        return signature(of: data.bytes, with: key)
    }
}

/// A host key of a hostile server, which can sign every session ID.
struct ForwarderKey {
    private let key = Curve25519.Signing.PrivateKey()

    var blob: [UInt8] {
        var blob = SSHWriter()
        blob.string("ssh-ed25519")
        blob.string(key.publicKey.rawRepresentation)
        return blob.bytes
    }

    func line(_ name: String) -> String {
        "\(name) ssh-ed25519 \(Data(blob).base64EncodedString())\n"
    }

    func bind(_ session: [UInt8], isForwarding: Bool = false) throws -> [UInt8] {
        var (message, signature) = (SSHWriter(), SSHWriter())
        signature.string("ssh-ed25519")
        signature.string(try key.signature(for: session))
        message.byte(27)
        message.string("session-bind@openssh.com")
        message.string(blob)
        message.string(session)
        message.string(signature.bytes)
        message.byte(isForwarding ? 1 : 0)
        return message.bytes
    }
}

extension SSHAgent {
    /// Logs in with `ssh -A` to a server “near”, with a key in software, so without a prompt. The
    /// login stays open while `body` runs.
    ///
    /// - Parameter body: Gets the path of the forwarded socket. The server runs on this machine.
    func withForwarding(_ body: (_ socket: String) async throws -> Void) async throws {
        let (software, path) = (directory.path(of: "software"), directory.path(of: "forwarded"))
        try await program("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", software])
        let near = try await SSHServer(
            "near", for: self,
            authorized: String(contentsOfFile: "\(software).pub", encoding: .utf8))
        let options = ["-A", "-o", "IdentitiesOnly=yes", "-i", software]
        // Until the server has noticed the end of the connection.
        let command = """
            echo $SSH_AUTH_SOCK >\(path).new; mv \(path).new \(path)
            while kill -0 $PPID; do sleep 0.2; done
            """
        let ssh = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            ["-i"] + clientEnvironment.map { "\($0.key)=\($0.value)" } + ["ssh"]
                + near.login(self, options) + [command])
        try await withTeardown({ await ssh.stop(SIGKILL) }) {
            var socket: String?
            #expect(
                await poll {
                    socket = try? String(contentsOfFile: path, encoding: .utf8)
                    return socket != nil
                })
            try await body(#require(socket).trimmingCharacters(in: .whitespacesAndNewlines))
        }
    }
}
