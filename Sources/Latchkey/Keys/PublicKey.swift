public import Crypto
public import FoundationEssentials

/// The public half of a hardware key: a point on P-256.
public struct PublicKey: Hashable, Sendable, Codable {
    /// The uncompressed point of SEC 1 section 2.3.3: `04 ‖ x ‖ y`, 65 bytes.
    public let x963Representation: Data

    /// - Throws: ``KeystoreError`` with code `damaged` unless the 65 bytes are a point on the curve.
    public init(x963Representation: some ContiguousBytes) throws(KeystoreError) {
        do {
            let key = try P256.Signing.PublicKey(x963Representation: x963Representation)
            self.x963Representation = key.x963Representation
        } catch {
            throw .damaged("read a public key", "its bytes are not a point on P-256")
        }
    }

    /// The x coordinate, 32 bytes, big-endian.
    public var x: Data { Data(x963Representation.dropFirst().prefix(32)) }

    /// The y coordinate, 32 bytes, big-endian.
    public var y: Data { Data(x963Representation.suffix(32)) }

    /// The same key for swift-crypto.
    public var cryptoKey: P256.Signing.PublicKey {
        get throws { try P256.Signing.PublicKey(x963Representation: x963Representation) }
    }

    /// SubjectPublicKeyInfo in PEM (RFC 7468).
    public var pemRepresentation: String {
        get throws { try cryptoKey.pemRepresentation }
    }

    /// Whether `signature` was made over `digest` by the private half.
    public func isValid(_ signature: ECDSASignature, for digest: MessageDigest) -> Bool {
        guard
            let key = try? cryptoKey,
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature.rawRepresentation)
        else { return false }
        return key.isValidSignature(signature, for: PrecomputedDigest(digest))
    }

    public init(from decoder: any Decoder) throws {
        try self.init(x963Representation: decoder.singleValueContainer().decode(Data.self))
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(x963Representation)
    }
}

/// Lets swift-crypto verify over a digest that was computed elsewhere.
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
