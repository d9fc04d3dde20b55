/// A command code, `TPM_CC` (TPM 2.0 Part 2 section 6.5.2).
public struct TPMCommandCode: TPMNumber, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let evictControl = TPMCommandCode(rawValue: 0x120)
    package static let nvUndefineSpace = TPMCommandCode(rawValue: 0x122)
    package static let nvDefineSpace = TPMCommandCode(rawValue: 0x12a)
    package static let createPrimary = TPMCommandCode(rawValue: 0x131)
    package static let nvIncrement = TPMCommandCode(rawValue: 0x134)
    package static let nvWrite = TPMCommandCode(rawValue: 0x137)
    package static let dictionaryAttackLockReset = TPMCommandCode(rawValue: 0x139)
    package static let nvChangeAuth = TPMCommandCode(rawValue: 0x13b)
    package static let activateCredential = TPMCommandCode(rawValue: 0x147)
    package static let certify = TPMCommandCode(rawValue: 0x148)
    package static let policyNV = TPMCommandCode(rawValue: 0x149)
    package static let certifyCreation = TPMCommandCode(rawValue: 0x14a)
    package static let nvRead = TPMCommandCode(rawValue: 0x14e)
    /// `TPM_CC_ObjectChangeAuth`.
    package static let objectChangeAuth = TPMCommandCode(rawValue: 0x150)
    package static let policySecret = TPMCommandCode(rawValue: 0x151)
    package static let create = TPMCommandCode(rawValue: 0x153)
    /// `TPM_CC_HMAC`.
    package static let hmac = TPMCommandCode(rawValue: 0x155)
    package static let load = TPMCommandCode(rawValue: 0x157)
    /// `TPM_CC_Sign`.
    package static let sign = TPMCommandCode(rawValue: 0x15d)
    /// `TPM_CC_Unseal`.
    package static let unseal = TPMCommandCode(rawValue: 0x15e)
    package static let policySigned = TPMCommandCode(rawValue: 0x160)
    package static let contextLoad = TPMCommandCode(rawValue: 0x161)
    package static let contextSave = TPMCommandCode(rawValue: 0x162)
    package static let flushContext = TPMCommandCode(rawValue: 0x165)
    package static let loadExternal = TPMCommandCode(rawValue: 0x167)
    package static let nvReadPublic = TPMCommandCode(rawValue: 0x169)
    package static let policyAuthValue = TPMCommandCode(rawValue: 0x16b)
    package static let policyCommandCode = TPMCommandCode(rawValue: 0x16c)
    package static let policyOR = TPMCommandCode(rawValue: 0x171)
    package static let policyTicket = TPMCommandCode(rawValue: 0x172)
    package static let readPublic = TPMCommandCode(rawValue: 0x173)
    package static let startAuthSession = TPMCommandCode(rawValue: 0x176)
    package static let getCapability = TPMCommandCode(rawValue: 0x17a)
    package static let readClock = TPMCommandCode(rawValue: 0x181)
    package static let policyGetDigest = TPMCommandCode(rawValue: 0x189)
    package static let nvCertify = TPMCommandCode(rawValue: 0x184)
}

extension TPMCommandCode: CustomStringConvertible {
    private static let names: [TPMCommandCode: String] = [
        .nvUndefineSpace: "NV_UndefineSpace", .nvDefineSpace: "NV_DefineSpace",
        .nvIncrement: "NV_Increment",
        .nvWrite: "NV_Write", .nvChangeAuth: "NV_ChangeAuth", .policyNV: "PolicyNV",
        .policyTicket: "PolicyTicket",
        .evictControl: "EvictControl", .createPrimary: "CreatePrimary",
        .dictionaryAttackLockReset: "DictionaryAttackLockReset",
        .certifyCreation: "CertifyCreation",
        .nvRead: "NV_Read", .objectChangeAuth: "ObjectChangeAuth", .policySecret: "PolicySecret",
        .create: "Create",
        .load: "Load", .hmac: "HMAC",
        .sign: "Sign", .unseal: "Unseal", .policySigned: "PolicySigned",
        .contextLoad: "ContextLoad", .contextSave: "ContextSave", .flushContext: "FlushContext",
        .loadExternal: "LoadExternal", .nvReadPublic: "NV_ReadPublic",
        .policyAuthValue: "PolicyAuthValue",
        .policyCommandCode: "PolicyCommandCode", .policyOR: "PolicyOR", .readPublic: "ReadPublic",
        .startAuthSession: "StartAuthSession",
        .getCapability: "GetCapability",
        .readClock: "ReadClock",
        .policyGetDigest: "PolicyGetDigest",
        .activateCredential: "ActivateCredential",
        .certify: "Certify", .nvCertify: "NV_Certify",
    ]

    /// The name of the command in Part 3, without `TPM2_`.
    public var description: String {
        Self.names[self] ?? "command 0x\(String(rawValue, radix: 16))"
    }
}
