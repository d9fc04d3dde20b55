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
