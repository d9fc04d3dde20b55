internal import Crypto

/// A public key or certificate in the list of another agent.
///
/// OpenSSH's clients skip keys of types that they do not know. For one key of a known type that they
/// cannot read, they refuse the whole list, and so all keys of this agent.
enum ListedKey {
    /// The minimum size of an RSA modulus in bits, as in OpenSSH.
    private static let minimumRSABits = 1024
    private static let certificateSuffix = "-cert-v01@openssh.com"

    /// Whether OpenSSH's clients read or skip the key.
    static func isReadable(_ blob: [UInt8]) -> Bool {
        do throws(SSHFormatError) {
            try check(blob, mayBeCertificate: true)
            return true
        } catch {
            return false
        }
    }

    private static func check(
        _ blob: [UInt8], mayBeCertificate: Bool
    ) throws(SSHFormatError) {
        var reader = SSHReader(blob)
        let name = try reader.text()
        guard !name.utf8.contains(0) else { throw SSHFormatError("a type contains NUL") }
        let isCertificate = mayBeCertificate && name.hasSuffix(certificateSuffix)
        var plain = name
        if isCertificate {
            plain = String(name.dropLast(certificateSuffix.count))
            if plain.hasPrefix("sk-") { plain += "@openssh.com" }
        }
        guard knownTypes.contains(plain) else { return }
        // The nonce of a certificate is before the key.
        if isCertificate { _ = try reader.string() }
        try readKey(plain, &reader)
        if isCertificate { try readCertificate(&reader) }
        try reader.end()
    }

    private static let knownTypes: Set<String> = [
        "ssh-ed25519", "sk-ssh-ed25519@openssh.com", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521", "sk-ecdsa-sha2-nistp256@openssh.com",
        "webauthn-sk-ecdsa-sha2-nistp256@openssh.com", "ssh-rsa", "ssh-dss",
    ]

    /// Reads the numbers of a key (RFC 4253 section 6.6, RFC 5656 section 3.1, RFC 8709 section 4,
    /// OpenSSH's PROTOCOL.u2f).
    ///
    /// - Parameter name: One of ``knownTypes``.
    private static func readKey(
        _ name: String, _ reader: inout SSHReader
    ) throws(SSHFormatError) {
        switch name {
        case "ssh-ed25519": try readEd25519(&reader)
        case "sk-ssh-ed25519@openssh.com":
            try readEd25519(&reader)
            _ = try reader.string()
        case "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521":
            try readPoint(on: String(name.suffix(8)), &reader)
        case "sk-ecdsa-sha2-nistp256@openssh.com", "webauthn-sk-ecdsa-sha2-nistp256@openssh.com":
            try readPoint(on: "nistp256", &reader)
            _ = try reader.string()
        case "ssh-rsa":
            _ = try reader.magnitude()
            let modulus = try reader.magnitude()
            let bits = modulus.count * 8 - (modulus.first?.leadingZeroBitCount ?? 0)
            guard bits >= minimumRSABits else { throw SSHFormatError("an RSA key is too short") }
        default: for _ in 0..<4 { _ = try reader.magnitude() }
        }
    }

    private static func readEd25519(_ reader: inout SSHReader) throws(SSHFormatError) {
        guard try reader.string().count == 32 else {
            throw SSHFormatError("an Ed25519 key does not have 32 bytes")
        }
    }

    private static func readPoint(
        on curve: String, _ reader: inout SSHReader
    ) throws(SSHFormatError) {
        guard try reader.text() == curve else { throw SSHFormatError("a key names two curves") }
        let point = try reader.string()
        let isOnCurve =
            switch curve {
            case "nistp256": (try? P256.Signing.PublicKey(x963Representation: point)) != nil
            case "nistp384": (try? P384.Signing.PublicKey(x963Representation: point)) != nil
            default: (try? P521.Signing.PublicKey(x963Representation: point)) != nil
            }
        guard isOnCurve else { throw SSHFormatError("a point is not on its curve") }
    }

    /// Reads the part of a certificate after the key (OpenSSH's PROTOCOL.certkeys).
    private static func readCertificate(_ reader: inout SSHReader) throws(SSHFormatError) {
        _ = try reader.uint64()
        guard [1, 2].contains(try reader.uint32()) else {
            throw SSHFormatError("a certificate is neither a user's nor a host's")
        }
        // The key ID and the principals.
        for _ in 0..<2 { _ = try reader.string() }
        for _ in 0..<2 { _ = try reader.uint64() }
        // Critical options, extensions and a reserved field.
        for _ in 0..<3 { _ = try reader.string() }
        try check(try reader.string(), mayBeCertificate: false)
        _ = try reader.string()
    }
}
