/// `CK_MECHANISM_TYPE`.
struct Mechanism: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt

    static let rsaKeyPairGeneration = Mechanism(rawValue: 0x0)
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    static let sha256RSA = Mechanism(rawValue: 0x40)
    static let ecKeyPairGeneration = Mechanism(rawValue: 0x1040)
    static let ecdsa = Mechanism(rawValue: 0x1041)
    static let ecdh1Derive = Mechanism(rawValue: 0x1050)
}
