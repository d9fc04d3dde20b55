import Crypto
import CryptoExtras
import Foundation
import Testing

@testable import LatchkeySSH

struct SessionBindingTests {
    private let one = SampleServer()
    private let other = SampleServer()
    private let sessions: [[UInt8]] = (1...20).map { [UInt8](repeating: $0, count: 32) }

    @Test func `a connection that is forwarded twice has three sessions`() throws {
        var bindings = SessionBindings()
        try bindings.bind(one.bind(sessions[0], isForwarding: true))
        try bindings.bind(other.bind(sessions[1], isForwarding: true))
        try bindings.bind(one.bind(sessions[2]))
        #expect(bindings.bindings.map(\.sessionID) == Array(sessions[0...2]))
        #expect(bindings.isForwarded && !bindings.hasFailed)
    }

    @Test func `a session is bound once, and none after one without forwarding`() throws {
        var bindings = SessionBindings()
        try bindings.bind(one.bind(sessions[0], isForwarding: true))
        #expect(throws: SSHFormatError.self) { try bindings.bind(other.bind(sessions[0])) }
        var local = SessionBindings()
        try local.bind(one.bind(sessions[0]))
        #expect(throws: SSHFormatError.self) { try local.bind(other.bind(sessions[1])) }
        #expect(local.hasFailed)
    }

    @Test func `a session that the host key did not sign is refused`() throws {
        let bind = try one.bind(sessions[0])
        for forged in [
            SessionBind(
                hostKey: other.blob, sessionID: bind.sessionID, signature: bind.signature,
                isForwarding: false),
            SessionBind(
                hostKey: bind.hostKey, sessionID: sessions[1], signature: bind.signature,
                isForwarding: false),
            SessionBind(
                hostKey: bind.hostKey, sessionID: bind.sessionID, signature: [], isForwarding: false
            ),
        ] {
            var bindings = SessionBindings()
            #expect(throws: SSHFormatError.self) { try bindings.bind(forged) }
            #expect(bindings.bindings.isEmpty && bindings.hasFailed)
        }
    }

    @Test func `a connection has at most 16 sessions`() throws {
        var bindings = SessionBindings()
        for session in sessions.prefix(16) {
            try bindings.bind(one.bind(session, isForwarding: true))
        }
        #expect(throws: SSHFormatError.self) { try bindings.bind(one.bind(sessions[16])) }
    }

    @Test func `a revoked host key is refused`() throws {
        let hosts = KnownHosts(["@revoked \(one.line("*"))"])
        var bindings = SessionBindings()
        #expect(throws: SSHFormatError.self) {
            try bindings.bind(one.bind(sessions[0])) { hosts.isRevoked($0) }
        }
        #expect(bindings.hasFailed)
    }

    @Test func `signatures of ECDSA and RSA host keys are verified`() throws {
        let session = sessions[0]
        func check(_ blob: SSHWriter, _ signature: SSHWriter) throws {
            let key = try HostKey(blob.bytes)
            #expect(key.isValid(signature.bytes, over: session))
            #expect(!key.isValid(signature.bytes, over: sessions[1]))
        }
        func ecdsa(_ curve: String, _ point: Data, _ raw: Data) throws {
            var (blob, numbers, signature) = (SSHWriter(), SSHWriter(), SSHWriter())
            blob.string("ecdsa-sha2-\(curve)")
            blob.string(curve)
            blob.string(point)
            numbers.mpint(raw.prefix(raw.count / 2))
            numbers.mpint(raw.suffix(raw.count / 2))
            signature.string("ecdsa-sha2-\(curve)")
            signature.string(numbers.bytes)
            try check(blob, signature)
        }
        let p256 = P256.Signing.PrivateKey()
        try ecdsa(
            "nistp256", p256.publicKey.x963Representation,
            p256.signature(for: session).rawRepresentation)
        let p384 = P384.Signing.PrivateKey()
        try ecdsa(
            "nistp384", p384.publicKey.x963Representation,
            p384.signature(for: session).rawRepresentation)
        let p521 = P521.Signing.PrivateKey()
        try ecdsa(
            "nistp521", p521.publicKey.x963Representation,
            p521.signature(for: session).rawRepresentation)

        let rsa = try _RSA.Signing.PrivateKey(keySize: .bits2048)
        let primitives = try rsa.publicKey.getKeyPrimitives()
        var blob = SSHWriter()
        blob.string("ssh-rsa")
        blob.mpint(primitives.publicExponent)
        blob.mpint(primitives.modulus)
        for (name, raw) in [
            (
                "rsa-sha2-256",
                try rsa.signature(for: SHA256.hash(data: session), padding: .insecurePKCS1v1_5)
            ),
            (
                "rsa-sha2-512",
                try rsa.signature(for: SHA512.hash(data: session), padding: .insecurePKCS1v1_5)
            ),
        ] {
            var signature = SSHWriter()
            signature.string(name)
            signature.string(raw.rawRepresentation)
            try check(blob, signature)
        }
        var sha1 = SSHWriter()
        sha1.string("ssh-rsa")
        sha1.string(
            try rsa.signature(for: Insecure.SHA1.hash(data: session), padding: .insecurePKCS1v1_5)
                .rawRepresentation)
        #expect(
            try !HostKey(blob.bytes).isValid(sha1.bytes, over: session), "SHA-1 is not accepted")
        let bind = SessionBind(
            hostKey: blob.bytes, sessionID: session, signature: sha1.bytes, isForwarding: false)
        var bindings = SessionBindings()
        let error = #expect(throws: SSHFormatError.self) { try bindings.bind(bind) }
        #expect(error?.description.contains("with SHA-1 (ssh-rsa)") ?? false)
        var dsa = SSHWriter()
        dsa.string("ssh-dss")
        let unknown = #expect(throws: SSHFormatError.self) { try HostKey(dsa.bytes) }
        #expect(unknown?.description.contains("ssh-dss") ?? false)
    }
}
