/// What an object may do and how its authorizations work, `TPMA_OBJECT` (TPM 2.0 Part 2 section 8.3).
public struct ObjectAttributes: OptionSet, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// It never leaves its TPM.
    public static let fixedTPM = ObjectAttributes(rawValue: 1 << 1)
    /// A saved context of it dies with the next start.
    public static let stClear = ObjectAttributes(rawValue: 1 << 2)
    /// It never gets another parent.
    public static let fixedParent = ObjectAttributes(rawValue: 1 << 4)
    /// Its private half was made by the TPM.
    public static let sensitiveDataOrigin = ObjectAttributes(rawValue: 1 << 5)
    /// The USER role is satisfied by the authValue.
    public static let userWithAuth = ObjectAttributes(rawValue: 1 << 6)
    /// The ADMIN role is satisfied by the policy only.
    public static let adminWithPolicy = ObjectAttributes(rawValue: 1 << 7)
    /// Wrong authorizations are not counted by the guard against dictionary attacks.
    public static let noDA = ObjectAttributes(rawValue: 1 << 10)
    /// It leaves its TPM encrypted only.
    public static let encryptedDuplication = ObjectAttributes(rawValue: 1 << 11)
    /// It works on nothing but the TPM's own structures.
    public static let restricted = ObjectAttributes(rawValue: 1 << 16)
    /// It decrypts, or agrees on keys.
    public static let decrypt = ObjectAttributes(rawValue: 1 << 17)
    /// It signs; of a symmetric key: it encrypts.
    public static let sign = ObjectAttributes(rawValue: 1 << 18)
}
