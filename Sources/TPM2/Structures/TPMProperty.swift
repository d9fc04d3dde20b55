/// A property that `GetCapability` reports, `TPM_PT` (TPM 2.0 Part 2 section 6.13).
public struct TPMProperty: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// The specification's revision, times 100.
    public static let revision = TPMProperty(rawValue: 0x102)
    /// The vendor's four letters.
    public static let manufacturer = TPMProperty(rawValue: 0x105)
    /// Letters 1 to 4 of the vendor's name for the model.
    public static let vendorString1 = TPMProperty(rawValue: 0x106)
    /// Letters 5 to 8 of the vendor's name for the model.
    public static let vendorString2 = TPMProperty(rawValue: 0x107)
    /// Letters 9 to 12 of the vendor's name for the model.
    public static let vendorString3 = TPMProperty(rawValue: 0x108)
    /// Letters 13 to 16 of the vendor's name for the model.
    public static let vendorString4 = TPMProperty(rawValue: 0x109)
    /// The upper half of the firmware's version.
    public static let firmwareVersion1 = TPMProperty(rawValue: 0x10b)
    /// The lower half of the firmware's version.
    public static let firmwareVersion2 = TPMProperty(rawValue: 0x10c)
    /// `TPMA_PERMANENT`: which hierarchies have a password; whether the TPM is locked.
    public static let permanent = TPMProperty(rawValue: 0x200)
    /// How many wrong authorizations have been counted.
    public static let lockoutCounter = TPMProperty(rawValue: 0x20e)
    /// How many lock the TPM.
    public static let maxAuthFail = TPMProperty(rawValue: 0x20f)
    /// In how many seconds one of them is forgotten.
    public static let lockoutInterval = TPMProperty(rawValue: 0x210)
    /// After how many seconds a wrong lockoutAuth is forgiven.
    public static let lockoutRecovery = TPMProperty(rawValue: 0x211)
}
