public import Crypto
public import FoundationEssentials

/// The public half of a hardware key: a point on P-256.
public struct PublicKey: Hashable, Sendable, Codable {
    /// The uncompressed point of SEC 1 section 2.3.3: `04 ‖ x ‖ y`, 65 bytes.
    public let x963Representation: Data

    /// The key as a swift-crypto type.
    package let cryptoKey: P256.Signing.PublicKey

    /// - Throws: ``KeystoreError`` with code `damaged` unless the 65 bytes are a point on the
    ///   curve.
    public init(x963Representation: some ContiguousBytes) throws(KeystoreError) {
        do {
            cryptoKey = try P256.Signing.PublicKey(x963Representation: x963Representation)
            self.x963Representation = x963Representation.withUnsafeBytes { Data($0) }
        } catch {
            throw KeystoreError.damaged("the public key is not a point on P-256").during(
                "read a public key")
        }
    }

    /// The x coordinate, 32 bytes, big-endian.
    package var x: Data { Data(x963Representation.dropFirst().prefix(32)) }

    /// The y coordinate, 32 bytes, big-endian.
    package var y: Data { Data(x963Representation.suffix(32)) }

    /// SubjectPublicKeyInfo in PEM (RFC 7468).
    public var pemRepresentation: String { cryptoKey.pemRepresentation }

    /// Whether the private half of this key created `signature` over `digest`.
    public func isValid(_ signature: ECDSASignature, for digest: MessageDigest) -> Bool {
        guard
            let signature = try? P256.Signing.ECDSASignature(
                rawRepresentation: signature.rawRepresentation)
        else {
            return false
        }
        return cryptoKey.isValidSignature(signature, for: PrecomputedDigest(digest))
    }

    public static func == (left: PublicKey, right: PublicKey) -> Bool {
        left.x963Representation == right.x963Representation
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(x963Representation)
    }

    public init(from decoder: any Decoder) throws {
        try self.init(x963Representation: decoder.singleValueContainer().decode(Data.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(x963Representation)
    }
}

/// A digest for swift-crypto's verification without hashing again.
private struct PrecomputedDigest: Digest {
    static let byteCount = SHA256.byteCount
    let bytes: [UInt8]

    init(_ digest: MessageDigest) {
        bytes = digest.bytes
    }

    var description: String { "SHA-256 digest" }

    func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes(body)
    }

    func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}

extension PublicKey {
    /// The key's thumbprint as a JWK, with SHA-256 (RFC 7638 section 3): 43 characters of
    /// base64url.
    package var thumbprint: String {
        let (x, y) = (Base64URL.encode(x), Base64URL.encode(y))
        let members = #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        return Base64URL.encode(Data(MessageDigest(sha256: members.utf8).bytes))
    }
}

/// An ECDSA signature over P-256 in the form that JOSE uses: `r ‖ s`, 64 bytes (RFC 7518 section
/// 3.4).
public struct ECDSASignature: Hashable, Sendable {
    /// `r ‖ s`, each 32 bytes, big-endian.
    public let rawRepresentation: Data

    /// - Returns: nil unless there are exactly 64 bytes.
    public init?(rawRepresentation: some DataProtocol) {
        guard rawRepresentation.count == 64 else { return nil }
        self.rawRepresentation = Data(rawRepresentation)
    }

    /// Creates a signature from two big-endian numbers of at most 32 bytes, as a TPM or a token
    /// returns them.
    ///
    /// - Returns: nil if a number has more than 32 bytes.
    package init?(r: [UInt8], s: [UInt8]) {
        var both = [UInt8](repeating: 0, count: 64)
        for (number, end) in [(r, 32), (s, 64)] {
            let zeros = number.prefix { $0 == 0 }.count
            let start = end - (number.count - zeros)
            guard start >= end - 32 else { return nil }
            both.replaceSubrange(start..<end, with: number[zeros...])
        }
        rawRepresentation = Data(both)
    }

    /// The signature as X.509 and OpenSSL encode it: an ASN.1 SEQUENCE of two INTEGERs (RFC 3279
    /// section 2.2.3), 8 to 72 bytes.
    public var derRepresentation: Data {
        get throws {
            try P256.Signing.ECDSASignature(rawRepresentation: rawRepresentation).derRepresentation
        }
    }
}

/// A SHA-256 digest, 32 bytes, for a hardware key to sign.
public struct MessageDigest: Hashable, Sendable {
    /// The 32 bytes.
    public let bytes: [UInt8]

    /// The digest of `message`.
    public init(sha256 message: some Sequence<UInt8>) {
        bytes = Array(SHA256.hash(data: Array(message)))
    }

    /// Creates the value from a digest of swift-crypto.
    public init(_ digest: SHA256Digest) {
        bytes = Array(digest)
    }

    /// Creates the value from the bytes of a digest.
    ///
    /// - Returns: nil unless `bytes` has 32 bytes.
    public init?(bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }
}
