/// `CK_MECHANISM_TYPE`.
struct Mechanism: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt

    static let ecKeyPairGeneration = Mechanism(rawValue: 0x1040)
    static let ecdsa = Mechanism(rawValue: 0x1041)
    static let ecdh1Derive = Mechanism(rawValue: 0x1050)
}
