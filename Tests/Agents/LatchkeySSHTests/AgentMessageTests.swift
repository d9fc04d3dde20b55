import Crypto
import Testing

@testable import LatchkeySSH

struct AgentMessageTests {
    private func message(_ type: UInt8, _ write: (inout SSHWriter) -> Void = { _ in }) -> [UInt8] {
        var writer = SSHWriter()
        writer.byte(type)
        write(&writer)
        return writer.bytes
    }

    @Test func `a request for a signature is read`() throws {
        let request = try AgentRequest(
            message(13) {
                $0.string([1, 2])
                $0.string([3])
                $0.uint32(4)
            })
        #expect(request == .sign(publicKey: [1, 2], data: [3], flags: 4))
    }

    @Test func `requests that change the agent, and others`() throws {
        for type: UInt8 in [17, 19, 20, 21, 22, 23, 25, 26] {
            #expect(try AgentRequest(message(type)) == .change)
        }
        #expect(try AgentRequest(message(18) { $0.string([1]) }) == .remove(publicKey: [1]))
        #expect(try AgentRequest(message(27) { $0.string("a@b") }) == .change)
        for type: UInt8 in [0, 1, 24, 255] {
            #expect(try AgentRequest(message(type)) == .unsupported(type: type))
        }
        #expect(try AgentRequest(AgentRequest.ownKeysMessage) == .onlyOwnKeys)
        #expect(try AgentRequest(AgentRequest.promptObstacleMessage) == .promptObstacle)
    }

    // MARK: Another agent

    private func list(_ keys: [[UInt8]]) -> [UInt8] {
        message(12) {
            $0.uint32(UInt32(keys.count))
            for key in keys {
                $0.string(key)
                $0.string("comment")
            }
        }
    }

    @Test func `a list of another agent is read completely, or refused`() throws {
        let keys = [Self.key("ssh-ed25519", [UInt8](repeating: 1, count: 32)), Self.key("odd")]
        let whole = list(keys)
        #expect(try OtherAgentAnswer.identities(whole).identities.map(\.publicKey) == keys)
        for count in 0..<whole.count {
            #expect(throws: SSHFormatError.self, "\(count)") {
                try OtherAgentAnswer.identities(Array(whole.prefix(count)))
            }
        }
        #expect(try OtherAgentAnswer.identities([5]).identities.isEmpty)
        #expect(
            try OtherAgentAnswer.identities(whole + [0]) == OtherAgentAnswer.identities(whole))
        let many = list((0...2048).map { [UInt8($0 >> 8), UInt8($0 & 255)] })
        #expect(throws: SSHFormatError.self) { try OtherAgentAnswer.identities(many) }
    }

    private static func key(_ name: String, _ parts: [UInt8]...) -> [UInt8] {
        var writer = SSHWriter()
        writer.string(name)
        for part in parts { writer.string(part) }
        return writer.bytes
    }

    private static let ed25519 = [UInt8](repeating: 1, count: 32)
    private static let p256 = Array("nistp256".utf8)
    private static let point = Array(P256.Signing.PrivateKey().publicKey.x963Representation)
    private static let modulus = [0x7F] + [UInt8](repeating: 1, count: 127)

    /// Keys of other agents, and whether OpenSSH's clients accept a list with them.
    private static let listed: [(key: [UInt8], isReadable: Bool)] = [
        (key("ssh-ed25519", ed25519), true), (key("ssh-ed25519", Array(ed25519.dropLast())), false),
        (key("ssh-ed25519", ed25519) + [0], false), (key("ssh-ed25519"), false),
        (key("ecdsa-sha2-nistp256", p256, point), true),
        (key("ecdsa-sha2-nistp384", p256, point), false),
        (key("ecdsa-sha2-nistp256", p256, [4] + [UInt8](repeating: 1, count: 64)), false),
        (key("ssh-rsa", [1, 0, 1], [0x40] + modulus.dropFirst()), false),
        (key("ssh-rsa", [1, 0, 1], [0, 0x80] + modulus.dropFirst()), true),
        (key("ssh-rsa", [1, 0, 1], [0x80] + modulus.dropFirst()), false),
        (key("sk-ssh-ed25519@openssh.com", ed25519, [1]), true),
        (key("sk-ssh-ed25519@openssh.com", ed25519), false),
        (key("sk-ecdsa-sha2-nistp256@openssh.com", p256, point, [1]), true),
        (key("ssh-dss", [1], [1], [1], [1]), true), (key("ssh-dss", [1]), false),
        (key("ssh-mldsa44", [1]), true), (key("odd"), true), (key(""), true),
        (key("odd-cert-v01@openssh.com"), true),
        (key("ssh-ed25519-cert-v01@openssh.com", [1], ed25519), false),
        ([], false), ([0xFF, 0xFF], false), (key("a\0b"), false),
    ]

    @Test(arguments: listed.indices)
    func `a key that would hide the others from ssh is omitted`(index: Int) throws {
        let (key, isReadable) = Self.listed[index]
        let good = Self.key("ssh-ed25519", [UInt8](repeating: 2, count: 32))
        let listing = try OtherAgentAnswer.identities(list([key, good]))
        #expect(listing.identities.map(\.publicKey) == (isReadable ? [key, good] : [good]))
        #expect(listing.unreadable == (isReadable ? 0 : 1))
    }

    @Test func `a certificate is readable, and not if a byte is missing`() throws {
        let blob = try SampleServer().certificate(by: SampleServer(), for: ["a"])
        let listing = try OtherAgentAnswer.identities(list([blob, blob.dropLast()]))
        #expect(listing.identities.map(\.publicKey) == [blob] && listing.unreadable == 1)
    }

    @Test func `other answers of another agent are checked`() throws {
        let signature = message(14) { $0.string([9]) }
        #expect(try OtherAgentAnswer.signature(signature) == .signature([9]))
        #expect(try OtherAgentAnswer.signature([5]) == .failure)
        for invalid in [[], [14], signature + [0], message(14) { $0.string("") }] {
            #expect(throws: SSHFormatError.self) { try OtherAgentAnswer.signature(invalid) }
        }
        for valid: [UInt8] in [[5], [6], [28], [29, 1]] {
            #expect(try OtherAgentAnswer.other(valid) == .other(valid))
        }
        for invalid: [UInt8] in [[], [5, 0], [14], [12, 0, 0, 0, 0]] {
            #expect(throws: SSHFormatError.self) { try OtherAgentAnswer.other(invalid) }
        }
    }

    @Test func `own keys are first in a merged list, which fits an answer`() {
        func identity(_ size: Int, _ first: UInt8) -> AgentIdentity {
            AgentIdentity(
                publicKey: [first] + [UInt8](repeating: 0, count: size), comment: "\(first)")
        }
        let own = [identity(10, 1), identity(10, 2)]
        let others = [identity(10, 2), identity(10, 3), identity(300 * 1024, 4), identity(10, 5)]
        let merged = AgentIdentity.merged(own, others)
        #expect(merged.map(\.comment) == ["1", "2", "3"])
        let many = (0..<3000).map {
            AgentIdentity(publicKey: [UInt8($0 >> 8), UInt8($0 & 255)], comment: "")
        }
        #expect(AgentIdentity.merged(own, many).count == AgentIdentity.maximumCount)
        #expect(
            AgentAnswer.identities(AgentIdentity.merged(own, others)).frame.count
                <= 4 + AgentRequest.maximumBytes)
    }

    @Test func `every truncated request is refused`() throws {
        let server = SampleServer()
        let bind = try server.bind(SampleData.session)
        let whole = message(27) {
            $0.string("session-bind@openssh.com")
            $0.string(bind.hostKey)
            $0.string(bind.sessionID)
            $0.string(bind.signature)
            $0.byte(0)
        }
        #expect(try AgentRequest(whole) == .bindSession(bind))
        for count in 0..<whole.count {
            #expect(throws: SSHFormatError.self, "\(count)") {
                try AgentRequest(whole.prefix(count))
            }
        }
        #expect(throws: SSHFormatError.self) { try AgentRequest(whole + [0]) }
    }

    @Test func `a length beyond the message is refused without reading it`() throws {
        #expect(throws: SSHFormatError.self) { try AgentRequest([13, 0xFF, 0xFF, 0xFF, 0xFF]) }
    }

    @Test func `messages are assembled from any parts`() throws {
        let frame = AgentAnswer.identities([AgentIdentity(publicKey: [9, 9], comment: "key")])
            .frame
        var buffer = FrameBuffer()
        var messages: [[UInt8]] = []
        for byte in frame + frame {
            #expect(try buffer.missing() > 0)
            buffer.append([byte])
            while let message = try buffer.next() { messages.append(message) }
        }
        #expect(messages == [Array(frame.dropFirst(4)), Array(frame.dropFirst(4))])
        #expect(try buffer.missing() == 4, "nothing of another message is stored")
    }

    @Test func `only session bindings are recognized as such, also malformed ones`() {
        func message(_ type: UInt8, _ name: String, _ rest: [UInt8] = []) -> [UInt8] {
            var writer = SSHWriter()
            writer.byte(type)
            writer.string(name)
            return writer.bytes + rest
        }
        #expect(AgentRequest.isSessionBinding(message(27, "session-bind@openssh.com")))
        #expect(AgentRequest.isSessionBinding(message(27, "session-bind@openssh.com", [1])))
        #expect(!AgentRequest.isSessionBinding(message(13, "session-bind@openssh.com")))
        #expect(!AgentRequest.isSessionBinding(message(27, "query", [1])))
        #expect(!AgentRequest.isSessionBinding([27]) && !AgentRequest.isSessionBinding([]))
    }

    @Test func `an empty or oversized message is refused at its length`() throws {
        for length: [UInt8] in [[0, 0, 0, 0], [0, 4, 0, 1], [0xFF, 0xFF, 0xFF, 0xFF]] {
            var buffer = FrameBuffer()
            buffer.append(length)
            #expect(throws: SSHFormatError.self) { try buffer.missing() }
            #expect(throws: SSHFormatError.self) { try buffer.next() }
        }
    }

    @Test func `numbers are written without leading zeros and never negative`() {
        func written(_ number: [UInt8]) -> [UInt8] {
            var writer = SSHWriter()
            writer.mpint(number)
            return writer.bytes
        }
        #expect(written([0, 0]) == [0, 0, 0, 0])
        #expect(written([0, 1]) == [0, 0, 0, 1, 1])
        #expect(written([0x80]) == [0, 0, 0, 2, 0, 0x80])
    }
}
