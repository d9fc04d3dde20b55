import Crypto
import CryptoExtras
import Foundation
import Latchkey

@testable import LatchkeySSH

/// A server of a test: a host key in software that signs sessions.
struct SampleServer {
    let key = Curve25519.Signing.PrivateKey()

    var blob: [UInt8] {
        var writer = SSHWriter()
        writer.string("ssh-ed25519")
        writer.string(key.publicKey.rawRepresentation)
        return writer.bytes
    }

    var hostKey: HostKey { get throws { try HostKey(blob) } }

    func signature(over message: [UInt8]) throws -> [UInt8] {
        var writer = SSHWriter()
        writer.string("ssh-ed25519")
        writer.string(try key.signature(for: message))
        return writer.bytes
    }

    func bind(_ session: [UInt8], isForwarding: Bool = false) throws -> SessionBind {
        SessionBind(
            hostKey: blob, sessionID: session, signature: try signature(over: session),
            isForwarding: isForwarding)
    }

    func line(_ names: String) -> String {
        "\(names) ssh-ed25519 \(Data(blob).base64EncodedString())"
    }

    /// The name as `ssh-keygen -H` writes it.
    static func hashed(_ name: String) -> String {
        let salt = SymmetricKey(size: SymmetricKeySize(bitCount: 160))
        let code = HMAC<Insecure.SHA1>.authenticationCode(for: Data(name.utf8), using: salt)
        let bytes = salt.withUnsafeBytes { Data($0) }
        return "|1|\(bytes.base64EncodedString())|\(Data(code).base64EncodedString())"
    }

    /// A certificate of this server's key.
    func certificate(
        by authority: SampleServer, for names: [String], type: UInt32 = 2,
        validFor validity: ClosedRange<UInt64> = 0...UInt64.max
    ) throws -> [UInt8] {
        var (writer, principals) = (SSHWriter(), SSHWriter())
        for name in names { principals.string(name) }
        writer.string("ssh-ed25519-cert-v01@openssh.com")
        writer.string([UInt8](repeating: 5, count: 32))
        writer.string(key.publicKey.rawRepresentation)
        writer.raw([UInt8](repeating: 0, count: 8))
        writer.uint32(type)
        writer.string("id")
        writer.string(principals.bytes)
        for end in [validity.lowerBound, validity.upperBound] {
            writer.uint32(UInt32(end >> 32))
            writer.uint32(UInt32(truncatingIfNeeded: end))
        }
        for _ in 0..<3 { writer.string("") }
        writer.string(authority.blob)
        writer.string(try authority.signature(over: writer.bytes))
        return writer.bytes
    }
}

/// Data that clients ask to sign.
enum SampleData {
    static let session = [UInt8](repeating: 7, count: 32)
    static let key: [UInt8] = {
        var writer = SSHWriter()
        writer.string(SSHPublicKey.algorithm)
        writer.string("nistp256")
        writer.string(P256.Signing.PrivateKey().publicKey.x963Representation)
        return writer.bytes
    }()

    static func login(
        session: [UInt8] = session, user: String = "ada", key: [UInt8] = key,
        hostKey: [UInt8]? = nil,
        algorithm: String = SSHPublicKey.algorithm
    ) -> [UInt8] {
        var writer = SSHWriter()
        writer.string(session)
        writer.byte(50)
        writer.string(user)
        writer.string("ssh-connection")
        writer.string(hostKey == nil ? "publickey" : "publickey-hostbound-v00@openssh.com")
        writer.byte(1)
        writer.string(algorithm)
        writer.string(key)
        if let hostKey { writer.string(hostKey) }
        return writer.bytes
    }

    static func file(namespace: String, digest: [UInt8] = Array(repeating: 1, count: 64)) -> [UInt8]
    {
        var writer = SSHWriter()
        writer.raw("SSHSIG".utf8)
        writer.string(namespace)
        writer.string("")
        writer.string("sha512")
        writer.string(digest)
        return writer.bytes
    }
}
