internal import Crypto
public import FoundationEssentials

/// An ECDSA signature over P-256 in the form that JOSE uses: `r ‖ s`, 64 bytes (RFC 7518 section 3.4).
public struct ECDSASignature: Hashable, Sendable {
    /// `r ‖ s`, each 32 bytes, big-endian.
    public let rawRepresentation: Data

    /// - Returns: nil unless there are exactly 64 bytes.
    public init?(rawRepresentation: some DataProtocol) {
        guard rawRepresentation.count == 64 else { return nil }
        self.rawRepresentation = Data(rawRepresentation)
    }

    /// Puts a signature together from two big-endian numbers of at most 32 bytes, as a TPM or a token returns them.
    ///
    /// - Returns: nil when a number has more than 32 bytes.
    public init?(r: some Collection<UInt8>, s: some Collection<UInt8>) {
        guard let r = Self.padded(r), let s = Self.padded(s) else { return nil }
        rawRepresentation = r + s
    }

    /// The same signature as X.509 and OpenSSL write it: an ASN.1 SEQUENCE of two INTEGERs (RFC 3279 section 2.2.3),
    /// 8 to 72 bytes.
    public var derRepresentation: Data {
        get throws { try P256.Signing.ECDSASignature(rawRepresentation: rawRepresentation).derRepresentation }
    }

    private static func padded(_ number: some Collection<UInt8>) -> Data? {
        let significant = number.drop { $0 == 0 }
        guard significant.count <= 32 else { return nil }
        return Data(repeating: 0, count: 32 - significant.count) + Data(significant)
    }
}
