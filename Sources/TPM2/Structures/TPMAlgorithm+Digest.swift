internal import Crypto

extension TPMAlgorithm {
    /// The digest of `bytes` under this hash algorithm.
    ///
    /// - Throws: ``TPMError`` of kind `unsupported` unless it is SHA-256, SHA-384 or SHA-512.
    func digest(of bytes: [UInt8]) throws(TPMError) -> [UInt8] {
        switch self {
        case .sha256: return Array(SHA256.hash(data: bytes))
        case .sha384: return Array(SHA384.hash(data: bytes))
        case .sha512: return Array(SHA512.hash(data: bytes))
        default: throw .unsupported("the hash algorithm 0x\(String(rawValue, radix: 16)) is not known")
        }
    }
}
