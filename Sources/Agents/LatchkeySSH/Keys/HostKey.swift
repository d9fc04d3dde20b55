internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials

/// A server's host key: Ed25519, ECDSA or RSA, or a certificate of one.
package struct HostKey: Hashable, Sendable {
    /// The bytes of the plain key, without a certificate around it.
    package let blob: [UInt8]
    private let algorithm: Algorithm
    /// The certificate of the key, if its authority signed it and it is valid now.
    let certificate: HostCertificate?

    /// The size limits keep a verification short.
    private static let rsaBytes = 128...1024

    private enum Algorithm: Hashable, Sendable {
        case ed25519(key: [UInt8])
        case ecdsa(curve: String, point: [UInt8])
        case rsa(exponent: [UInt8], modulus: [UInt8])
    }

    package init(_ blob: [UInt8]) throws(SSHFormatError) {
        var reader = SSHReader(blob)
        let name = try reader.text()
        let suffix = "-cert-v01@openssh.com"
        let isCertificate = name.hasSuffix(suffix)
        let plainName = isCertificate ? String(name.dropLast(suffix.count)) : name
        if isCertificate { _ = try reader.string() }
        let (algorithm, plain) = try Self.key(plainName, &reader)
        (self.algorithm, self.blob) = (algorithm, plain)
        guard isCertificate else {
            certificate = nil
            try reader.end()
            return
        }
        certificate = try HostCertificate(blob, &reader)
    }

    /// Compares the plain keys: the algorithm follows from the bytes.
    package static func == (left: HostKey, right: HostKey) -> Bool { left.blob == right.blob }

    package func hash(into hasher: inout Hasher) { hasher.combine(blob) }

    /// A key without a certificate.
    init(plain blob: [UInt8]) throws(SSHFormatError) {
        var reader = SSHReader(blob)
        (algorithm, self.blob) = try Self.key(try reader.text(), &reader)
        certificate = nil
        try reader.end()
    }

    private static func key(
        _ name: String, _ reader: inout SSHReader
    ) throws(SSHFormatError) -> (Algorithm, [UInt8]) {
        var plain = SSHWriter()
        plain.string(name)
        switch name {
        case "ssh-ed25519":
            let key = try reader.string()
            guard key.count == 32 else {
                throw SSHFormatError("the host key is not an Ed25519 key")
            }
            plain.string(key)
            return (.ed25519(key: key), plain.bytes)
        case "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521":
            let curve = try reader.text()
            guard name.hasSuffix(curve) else {
                throw SSHFormatError("the host key names two curves")
            }
            let point = try reader.string()
            plain.string(curve)
            plain.string(point)
            return (.ecdsa(curve: curve, point: point), plain.bytes)
        case "ssh-rsa":
            let (exponent, modulus) = (try reader.magnitude(), try reader.magnitude())
            guard rsaBytes.contains(modulus.count), (1...8).contains(exponent.count) else {
                throw SSHFormatError("the RSA host key has an unusual size")
            }
            plain.mpint(exponent)
            plain.mpint(modulus)
            return (.rsa(exponent: exponent, modulus: modulus), plain.bytes)
        case "ssh-dss":
            throw SSHFormatError(
                "the server has a DSA host key (ssh-dss), which the agent does not accept")
        default: throw SSHFormatError("the host key has an unknown type")
        }
    }

    package var fingerprint: String { SSHPublicKey.fingerprint(of: blob) }

    /// `SHA256:` and 12 characters, 72 bits, for prompts.
    var shortFingerprint: String { String(fingerprint.prefix(7 + 12)) }

    /// Whether a signature names SHA-1, which ``isValid(_:over:)`` does not accept.
    func usesSHA1(_ signature: [UInt8]) -> Bool {
        var reader = SSHReader(signature)
        guard case .rsa = algorithm else { return false }
        return (try? reader.text()) == "ssh-rsa"
    }

    /// Whether the server's key signed `message`. SHA-1 signatures are not valid.
    package func isValid(_ signature: [UInt8], over message: [UInt8]) -> Bool {
        (try? verify(signature, message)) ?? false
    }

    private func verify(_ signature: [UInt8], _ message: [UInt8]) throws -> Bool {
        var reader = SSHReader(signature)
        let name = try reader.text()
        let value = try reader.string()
        try reader.end()
        switch algorithm {
        case .ed25519(let key):
            guard name == "ssh-ed25519" else { return false }
            return try Curve25519.Signing.PublicKey(rawRepresentation: key)
                .isValidSignature(value, for: message)
        case .ecdsa(let curve, let point):
            guard name == "ecdsa-sha2-\(curve)" else { return false }
            return try Self.verify(value, message, curve: curve, point: point)
        case .rsa(let exponent, let modulus):
            let key = try _RSA.Signing.PublicKey(n: modulus, e: exponent)
            // OpenSSH may write fewer bytes than the modulus has.
            let padded = [UInt8](repeating: 0, count: max(0, modulus.count - value.count)) + value
            let signature = _RSA.Signing.RSASignature(rawRepresentation: padded)
            switch name {
            case "rsa-sha2-256":
                return key.isValidSignature(
                    signature, for: SHA256.hash(data: message), padding: .insecurePKCS1v1_5)
            case "rsa-sha2-512":
                return key.isValidSignature(
                    signature, for: SHA512.hash(data: message), padding: .insecurePKCS1v1_5)
            default: return false
            }
        }
    }

    private static func verify(
        _ value: [UInt8], _ message: [UInt8], curve: String, point: [UInt8]
    ) throws -> Bool {
        var numbers = SSHReader(value)
        let (r, s) = (try numbers.magnitude(), try numbers.magnitude())
        try numbers.end()
        func raw(_ size: Int) throws -> [UInt8] {
            guard r.count <= size, s.count <= size else {
                throw SSHFormatError("the signature is too long")
            }
            return [r, s].flatMap { [UInt8](repeating: 0, count: size - $0.count) + $0 }
        }
        switch curve {
        case "nistp256":
            let key = try P256.Signing.PublicKey(x963Representation: point)
            return key.isValidSignature(
                try P256.Signing.ECDSASignature(rawRepresentation: raw(32)), for: message)
        case "nistp384":
            let key = try P384.Signing.PublicKey(x963Representation: point)
            return key.isValidSignature(
                try P384.Signing.ECDSASignature(rawRepresentation: raw(48)), for: message)
        default:
            let key = try P521.Signing.PublicKey(x963Representation: point)
            return key.isValidSignature(
                try P521.Signing.ECDSASignature(rawRepresentation: raw(66)), for: message)
        }
    }
}

/// What an authority certifies about a host key (OpenSSH's PROTOCOL.certkeys).
struct HostCertificate: Sendable {
    /// The bytes of the authority's key.
    let authority: [UInt8]
    /// The host names.
    let principals: [String]

    /// - Parameter reader: The part of the certificate after the key.
    /// - Returns: nil if the certificate is not valid now, or its authority did not sign it.
    /// - Throws: ``SSHFormatError`` if it is malformed, or not a host's.
    init?(_ blob: [UInt8], _ reader: inout SSHReader) throws(SSHFormatError) {
        _ = try reader.uint64()
        guard try reader.uint32() == 2 else { throw SSHFormatError("it is not a host certificate") }
        _ = try reader.string()
        var names = SSHReader(try reader.string())
        var principals: [String] = []
        while !names.isAtEnd { principals.append(try names.text()) }
        let (start, end) = (try reader.uint64(), try reader.uint64())
        // Critical options, extensions and a reserved field.
        let options = try reader.string()
        for _ in 0..<2 { _ = try reader.string() }
        let authority = try reader.string()
        let signed = blob.dropLast(reader.rest.count)
        let signature = try reader.string()
        try reader.end()
        let now = UInt64(max(0, Date().timeIntervalSince1970))
        // OpenSSH defines no critical options of hosts.
        guard options.isEmpty, start <= now, now < end, let key = try? HostKey(plain: authority),
            key.isValid(signature, over: Array(signed))
        else { return nil }
        (self.authority, self.principals) = (key.blob, principals)
    }
}
