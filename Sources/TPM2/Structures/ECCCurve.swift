/// A curve's number, `TPM_ECC_CURVE` (TPM 2.0 Part 2 section 6.4).
public struct ECCCurve: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// `TPM_ECC_NIST_P256`.
    public static let nistP256 = ECCCurve(rawValue: 0x0003)
    /// `TPM_ECC_NIST_P384`.
    public static let nistP384 = ECCCurve(rawValue: 0x0004)
    /// `TPM_ECC_NIST_P521`.
    public static let nistP521 = ECCCurve(rawValue: 0x0005)
}
