internal import Crypto
internal import FoundationEssentials
package import Latchkey

/// A hardware key as OpenSSH encodes it: `ecdsa-sha2-nistp256` (RFC 5656 section 3.1).
package struct SSHPublicKey: Hashable, Sendable {
    package static let algorithm = "ecdsa-sha2-nistp256"
    static let curve = "nistp256"

    package let blob: [UInt8]

    package init(_ key: PublicKey) {
        var writer = SSHWriter()
        writer.string(Self.algorithm)
        writer.string(Self.curve)
        writer.string(key.x963Representation)
        blob = writer.bytes
    }

    /// The line of `authorized_keys` and `.pub` files.
    package func line(comment: String) -> String {
        "\(Self.algorithm) \(Data(blob).base64EncodedString()) \(comment)"
    }

    /// The fingerprint of a key or certificate's bytes as OpenSSH writes it: `SHA256:` and 43
    /// characters.
    package static func fingerprint(of blob: some Sequence<UInt8>) -> String {
        let digest = Data(SHA256.hash(data: Array(blob)))
        return "SHA256:" + digest.base64EncodedString().filter { $0 != "=" }
    }

    package var fingerprint: String { Self.fingerprint(of: blob) }

    /// A signature as OpenSSH encodes it (RFC 5656 section 3.1.2).
    package static func encode(_ signature: ECDSASignature) -> [UInt8] {
        var numbers = SSHWriter()
        numbers.mpint(signature.rawRepresentation.prefix(32))
        numbers.mpint(signature.rawRepresentation.suffix(32))
        var writer = SSHWriter()
        writer.string(algorithm)
        writer.string(numbers.bytes)
        return writer.bytes
    }
}
