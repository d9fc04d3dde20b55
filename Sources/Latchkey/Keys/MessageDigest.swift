public import Crypto

/// A SHA-256 digest, 32 bytes: what a hardware key signs.
public struct MessageDigest: Hashable, Sendable {
    /// The 32 bytes.
    public let bytes: [UInt8]

    /// The digest of `message`.
    public init(sha256 message: some Sequence<UInt8>) {
        bytes = Array(SHA256.hash(data: Array(message)))
    }

    /// A digest that was computed elsewhere.
    public init(_ digest: SHA256Digest) {
        bytes = Array(digest)
    }

    /// A digest that was computed elsewhere, as bytes.
    ///
    /// - Returns: nil unless `bytes` has exactly 32 bytes.
    public init?(bytes: some Sequence<UInt8>) {
        let bytes = Array(bytes)
        guard bytes.count == SHA256.byteCount else { return nil }
        self.bytes = bytes
    }
}
