/// What may be done with an NV index and by whom, `TPMA_NV` (TPM 2.0 Part 2 section 13.4).
public struct NVAttributes: OptionSet, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The owner may write it.
    public static let ownerWrite = NVAttributes(rawValue: 1 << 1)
    /// Who has its authValue may write it.
    public static let authWrite = NVAttributes(rawValue: 1 << 2)
    /// Who satisfies its policy may write it.
    public static let policyWrite = NVAttributes(rawValue: 1 << 3)
    /// `TPM_NT_COUNTER` in the type field: 8 bytes that only grow, also over deletion.
    public static let counter = NVAttributes(rawValue: 0x1 << 4)
    /// `TPM_NT_PIN_FAIL` in the type field: 4 bytes of failures in a row, 4 bytes of how many are allowed.
    public static let pinFail = NVAttributes(rawValue: 0x8 << 4)
    /// The owner may read it.
    public static let ownerRead = NVAttributes(rawValue: 1 << 17)
    /// Who has its authValue may read it.
    public static let authRead = NVAttributes(rawValue: 1 << 18)
    /// Who satisfies its policy may read it.
    public static let policyRead = NVAttributes(rawValue: 1 << 19)
    /// Wrong authorizations are not counted by the guard against dictionary attacks.
    public static let noDA = NVAttributes(rawValue: 1 << 25)
    /// Something was written. Set by the TPM.
    public static let written = NVAttributes(rawValue: 1 << 29)
}
