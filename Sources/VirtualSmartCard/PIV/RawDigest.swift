internal import Crypto

/// Lets swift-crypto sign a number that was hashed elsewhere.
struct RawDigest: Digest {
    /// That of the smaller curve. Signing looks at the bytes themselves.
    static let byteCount = 32
    private let bytes: [UInt8]

    /// - Parameter width: The curve's, in bytes. Longer digests are cut (FIPS 186-4 section 6.4), shorter ones are the
    ///   same number with zeros before it.
    init(_ digest: [UInt8], width: Int) {
        let digest = digest.prefix(width)
        bytes = [UInt8](repeating: 0, count: width - digest.count) + digest
    }

    var description: String { "a digest of \(bytes.count) bytes" }

    func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes(body)
    }

    func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}
