/// A signing, encryption or key derivation scheme with its hash: `TPMT_ECC_SCHEME`, `TPMT_RSA_SCHEME`,
/// `TPMT_SIG_SCHEME`, `TPMT_KDF_SCHEME`, `TPMT_KEYEDHASH_SCHEME` (TPM 2.0 Part 2 section 11.2).
public struct Scheme: Hashable, Sendable {
    /// The algorithm, or null.
    public let algorithm: TPMAlgorithm
    /// Absent when ``algorithm`` is null or RSAES.
    public let hash: TPMAlgorithm?
    /// The 16-bit counter of ECDAA, or the KDF of XOR.
    public let extra: UInt16?

    /// The key decides, or there is none.
    public static let null = Scheme(algorithm: .null, hash: nil, extra: nil)
    /// ECDSA over a SHA-256 digest.
    public static let ecdsaSHA256 = Scheme(algorithm: .ecdsa, hash: .sha256, extra: nil)
}

extension Scheme: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        algorithm = try reader.read()
        hash = algorithm == .null || algorithm == .rsaes ? nil : try reader.read(TPMAlgorithm.self)
        extra = algorithm == .ecdaa || algorithm == .xor ? try reader.read(UInt16.self) : nil
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(algorithm)
        if let hash { writer.write(hash) }
        if let extra { writer.write(extra) }
    }
}
