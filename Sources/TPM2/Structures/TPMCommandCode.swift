/// A command's number, `TPM_CC` (TPM 2.0 Part 2 section 6.5.2).
public struct TPMCommandCode: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// `TPM_CC_EvictControl`.
    public static let evictControl = TPMCommandCode(rawValue: 0x120)
    /// `TPM_CC_NV_UndefineSpace`.
    public static let nvUndefineSpace = TPMCommandCode(rawValue: 0x122)
    /// `TPM_CC_NV_DefineSpace`.
    public static let nvDefineSpace = TPMCommandCode(rawValue: 0x12a)
    /// `TPM_CC_CreatePrimary`.
    public static let createPrimary = TPMCommandCode(rawValue: 0x131)
    /// `TPM_CC_NV_Increment`.
    public static let nvIncrement = TPMCommandCode(rawValue: 0x134)
    /// `TPM_CC_NV_Write`.
    public static let nvWrite = TPMCommandCode(rawValue: 0x137)
    /// `TPM_CC_DictionaryAttackLockReset`.
    public static let dictionaryAttackLockReset = TPMCommandCode(rawValue: 0x139)
    /// `TPM_CC_NV_ChangeAuth`.
    public static let nvChangeAuth = TPMCommandCode(rawValue: 0x13b)
    /// `TPM_CC_SelfTest`.
    public static let selfTest = TPMCommandCode(rawValue: 0x143)
    /// `TPM_CC_Startup`.
    public static let startup = TPMCommandCode(rawValue: 0x144)
    /// `TPM_CC_Shutdown`.
    public static let shutdown = TPMCommandCode(rawValue: 0x145)
    /// `TPM_CC_ActivateCredential`.
    public static let activateCredential = TPMCommandCode(rawValue: 0x147)
    /// `TPM_CC_PolicyNV`.
    public static let policyNV = TPMCommandCode(rawValue: 0x149)
    /// `TPM_CC_CertifyCreation`.
    public static let certifyCreation = TPMCommandCode(rawValue: 0x14a)
    /// `TPM_CC_NV_Read`.
    public static let nvRead = TPMCommandCode(rawValue: 0x14e)
    /// `TPM_CC_ObjectChangeAuth`.
    public static let objectChangeAuth = TPMCommandCode(rawValue: 0x150)
    /// `TPM_CC_PolicySecret`.
    public static let policySecret = TPMCommandCode(rawValue: 0x151)
    /// `TPM_CC_Create`.
    public static let create = TPMCommandCode(rawValue: 0x153)
    /// `TPM_CC_ECDH_ZGen`.
    public static let ecdhZGen = TPMCommandCode(rawValue: 0x154)
    /// `TPM_CC_Load`.
    public static let load = TPMCommandCode(rawValue: 0x157)
    /// `TPM_CC_Sign`.
    public static let sign = TPMCommandCode(rawValue: 0x15d)
    /// `TPM_CC_Unseal`.
    public static let unseal = TPMCommandCode(rawValue: 0x15e)
    /// `TPM_CC_PolicySigned`.
    public static let policySigned = TPMCommandCode(rawValue: 0x160)
    /// `TPM_CC_ContextLoad`.
    public static let contextLoad = TPMCommandCode(rawValue: 0x161)
    /// `TPM_CC_ContextSave`.
    public static let contextSave = TPMCommandCode(rawValue: 0x162)
    /// `TPM_CC_FlushContext`.
    public static let flushContext = TPMCommandCode(rawValue: 0x165)
    /// `TPM_CC_LoadExternal`.
    public static let loadExternal = TPMCommandCode(rawValue: 0x167)
    /// `TPM_CC_MakeCredential`.
    public static let makeCredential = TPMCommandCode(rawValue: 0x168)
    /// `TPM_CC_NV_ReadPublic`.
    public static let nvReadPublic = TPMCommandCode(rawValue: 0x169)
    /// `TPM_CC_PolicyAuthorize`.
    public static let policyAuthorize = TPMCommandCode(rawValue: 0x16a)
    /// `TPM_CC_PolicyAuthValue`.
    public static let policyAuthValue = TPMCommandCode(rawValue: 0x16b)
    /// `TPM_CC_PolicyCommandCode`.
    public static let policyCommandCode = TPMCommandCode(rawValue: 0x16c)
    /// `TPM_CC_PolicyOR`.
    public static let policyOR = TPMCommandCode(rawValue: 0x171)
    /// `TPM_CC_PolicyTicket`.
    public static let policyTicket = TPMCommandCode(rawValue: 0x172)
    /// `TPM_CC_ReadPublic`.
    public static let readPublic = TPMCommandCode(rawValue: 0x173)
    /// `TPM_CC_StartAuthSession`.
    public static let startAuthSession = TPMCommandCode(rawValue: 0x176)
    /// `TPM_CC_VerifySignature`.
    public static let verifySignature = TPMCommandCode(rawValue: 0x177)
    /// `TPM_CC_GetCapability`.
    public static let getCapability = TPMCommandCode(rawValue: 0x17a)
    /// `TPM_CC_GetRandom`.
    public static let getRandom = TPMCommandCode(rawValue: 0x17b)
    /// `TPM_CC_PolicyRestart`.
    public static let policyRestart = TPMCommandCode(rawValue: 0x180)
    /// `TPM_CC_ReadClock`.
    public static let readClock = TPMCommandCode(rawValue: 0x181)
    /// `TPM_CC_PolicyGetDigest`.
    public static let policyGetDigest = TPMCommandCode(rawValue: 0x189)
    /// `TPM_CC_TestParms`.
    public static let testParms = TPMCommandCode(rawValue: 0x18a)
}

extension TPMCommandCode: CustomStringConvertible {
    private static let names: [TPMCommandCode: String] = [
        .nvUndefineSpace: "NV_UndefineSpace", .nvDefineSpace: "NV_DefineSpace", .nvIncrement: "NV_Increment",
        .nvWrite: "NV_Write", .nvChangeAuth: "NV_ChangeAuth", .policyNV: "PolicyNV", .policyTicket: "PolicyTicket",
        .evictControl: "EvictControl", .createPrimary: "CreatePrimary",
        .dictionaryAttackLockReset: "DictionaryAttackLockReset", .selfTest: "SelfTest", .startup: "Startup",
        .shutdown: "Shutdown", .activateCredential: "ActivateCredential", .certifyCreation: "CertifyCreation",
        .nvRead: "NV_Read", .objectChangeAuth: "ObjectChangeAuth", .policySecret: "PolicySecret", .create: "Create",
        .ecdhZGen: "ECDH_ZGen", .load: "Load", .sign: "Sign", .unseal: "Unseal", .policySigned: "PolicySigned",
        .contextLoad: "ContextLoad", .contextSave: "ContextSave", .flushContext: "FlushContext",
        .loadExternal: "LoadExternal", .makeCredential: "MakeCredential", .nvReadPublic: "NV_ReadPublic",
        .policyAuthorize: "PolicyAuthorize", .policyAuthValue: "PolicyAuthValue",
        .policyCommandCode: "PolicyCommandCode", .policyOR: "PolicyOR", .readPublic: "ReadPublic",
        .startAuthSession: "StartAuthSession", .verifySignature: "VerifySignature", .getCapability: "GetCapability",
        .getRandom: "GetRandom", .policyRestart: "PolicyRestart", .readClock: "ReadClock",
        .policyGetDigest: "PolicyGetDigest", .testParms: "TestParms",
    ]

    /// The command's name as Part 3 spells it, without `TPM2_`.
    public var description: String { Self.names[self] ?? "command 0x\(String(rawValue, radix: 16))" }
}
