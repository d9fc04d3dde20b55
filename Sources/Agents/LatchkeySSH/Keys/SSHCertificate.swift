internal import FoundationEssentials
internal import Latchkey

/// A user certificate for a hardware key: `ecdsa-sha2-nistp256-cert-v01@openssh.com` (OpenSSH's
/// PROTOCOL.certkeys).
///
/// The agent does not verify the authority's signature: the server does. It offers the certificate
/// only for the key in it.
package struct SSHCertificate: Hashable, Sendable {
    static let algorithm = "ecdsa-sha2-nistp256-cert-v01@openssh.com"
    /// The maximum length in bytes.
    static let maximumBytes = 16 * 1024

    package let blob: [UInt8]
    /// The certified public key, as the authority wrote it.
    package let publicKey: [UInt8]
    package let serial: UInt64
    package let keyID: String
    package let principals: [String]
    /// The first second of its validity since 1970; 0 for none.
    package let validAfter: UInt64
    /// The first second since 1970 at which it is no longer valid; the maximum for none.
    package let validBefore: UInt64
    package let authorityFingerprint: String

    /// Whether a server that uses the same clock accepts the certificate.
    package enum Validity: Hashable, Sendable {
        case valid, notYet, expired

        /// For a user; nil for a valid certificate.
        package var note: String? {
            switch self {
            case .valid: nil
            case .notYet: "not yet valid"
            case .expired: "expired"
            }
        }
    }

    /// Its validity at a time in seconds since 1970, as OpenSSH's servers decide.
    package func validity(at time: UInt64) -> Validity {
        guard time >= validAfter else { return .notYet }
        return time < validBefore ? .valid : .expired
    }

    /// Its validity now.
    package var validity: Validity {
        validity(at: UInt64(max(0, Date().timeIntervalSince1970)))
    }

    /// Reads the bytes of a certificate.
    package init(_ blob: [UInt8]) throws(SSHFormatError) {
        guard blob.count <= Self.maximumBytes else {
            throw SSHFormatError("the certificate is too long")
        }
        var reader = SSHReader(blob)
        guard try reader.text() == Self.algorithm else {
            throw SSHFormatError("it is not a certificate of a P-256 key (\(Self.algorithm))")
        }
        _ = try reader.string()
        guard try reader.text() == SSHPublicKey.curve,
            let key = try? PublicKey(x963Representation: try reader.string())
        else { throw SSHFormatError("the certified key is not on P-256") }
        publicKey = SSHPublicKey(key).blob
        serial = try reader.uint64()
        guard try reader.uint32() == 1 else { throw SSHFormatError("it is not a user certificate") }
        // Any bytes, which the authority chose.
        keyID = String(decoding: try reader.string(), as: UTF8.self)
        var names = SSHReader(try reader.string())
        var principals: [String] = []
        while !names.isAtEnd { principals.append(try names.text()) }
        self.principals = principals
        validAfter = try reader.uint64()
        validBefore = try reader.uint64()
        // Critical options, extensions and a reserved field.
        for _ in 0..<3 { _ = try reader.string() }
        authorityFingerprint = SSHPublicKey.fingerprint(of: try reader.string())
        _ = try reader.string()
        try reader.end()
        self.blob = blob
    }

    /// Reads the contents of a file that `ssh-keygen -s` wrote: its first line that is neither empty
    /// nor a comment, as OpenSSH does.
    package init(file: String) throws(SSHFormatError) {
        let text = file.hasPrefix("\u{FEFF}") ? file.dropFirst() : file[...]
        let line = text.split(whereSeparator: \.isNewline).first {
            $0.contains { !$0.isWhitespace } && !$0.hasPrefix("#")
        }
        let words = line?.split(whereSeparator: \.isWhitespace) ?? []
        guard words.count >= 2, words[0] == Self.algorithm else {
            throw SSHFormatError(
                "the first line that is no comment does not begin with \(Self.algorithm)")
        }
        guard let blob = Data(base64Encoded: String(words[1])) else {
            throw SSHFormatError("the certificate is not base64")
        }
        try self.init(Array(blob))
    }

    /// The line of a certificate file.
    package func line(comment: String) -> String {
        "\(Self.algorithm) \(Data(blob).base64EncodedString()) \(comment)"
    }
}
