/// A command's number, `TPM_CC` (TPM 2.0 Part 2 section 6.5.2).
public struct TPMCommandCode: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) { self.rawValue = rawValue }

    public static let evictControl = TPMCommandCode(rawValue: 0x120)
    public static let nvUndefineSpace = TPMCommandCode(rawValue: 0x122)
    public static let nvDefineSpace = TPMCommandCode(rawValue: 0x12a)
    public static let createPrimary = TPMCommandCode(rawValue: 0x131)
    public static let nvIncrement = TPMCommandCode(rawValue: 0x134)
    public static let nvWrite = TPMCommandCode(rawValue: 0x137)
    public static let dictionaryAttackLockReset = TPMCommandCode(rawValue: 0x139)
    public static let nvChangeAuth = TPMCommandCode(rawValue: 0x13b)
    public static let selfTest = TPMCommandCode(rawValue: 0x143)
    public static let startup = TPMCommandCode(rawValue: 0x144)
    public static let shutdown = TPMCommandCode(rawValue: 0x145)
    public static let activateCredential = TPMCommandCode(rawValue: 0x147)
    public static let policyNV = TPMCommandCode(rawValue: 0x149)
    public static let certifyCreation = TPMCommandCode(rawValue: 0x14a)
    public static let nvRead = TPMCommandCode(rawValue: 0x14e)
    public static let objectChangeAuth = TPMCommandCode(rawValue: 0x150)
    public static let policySecret = TPMCommandCode(rawValue: 0x151)
    public static let create = TPMCommandCode(rawValue: 0x153)
    public static let ecdhZGen = TPMCommandCode(rawValue: 0x154)
    public static let load = TPMCommandCode(rawValue: 0x157)
    public static let sign = TPMCommandCode(rawValue: 0x15d)
    public static let unseal = TPMCommandCode(rawValue: 0x15e)
    public static let policySigned = TPMCommandCode(rawValue: 0x160)
    public static let contextLoad = TPMCommandCode(rawValue: 0x161)
    public static let contextSave = TPMCommandCode(rawValue: 0x162)
    public static let flushContext = TPMCommandCode(rawValue: 0x165)
    public static let loadExternal = TPMCommandCode(rawValue: 0x167)
    public static let makeCredential = TPMCommandCode(rawValue: 0x168)
    public static let nvReadPublic = TPMCommandCode(rawValue: 0x169)
    public static let policyAuthorize = TPMCommandCode(rawValue: 0x16a)
    public static let policyAuthValue = TPMCommandCode(rawValue: 0x16b)
    public static let policyCommandCode = TPMCommandCode(rawValue: 0x16c)
    public static let policyOR = TPMCommandCode(rawValue: 0x171)
    public static let policyTicket = TPMCommandCode(rawValue: 0x172)
    public static let readPublic = TPMCommandCode(rawValue: 0x173)
    public static let startAuthSession = TPMCommandCode(rawValue: 0x176)
    public static let verifySignature = TPMCommandCode(rawValue: 0x177)
    public static let getCapability = TPMCommandCode(rawValue: 0x17a)
    public static let getRandom = TPMCommandCode(rawValue: 0x17b)
    public static let policyRestart = TPMCommandCode(rawValue: 0x180)
    public static let readClock = TPMCommandCode(rawValue: 0x181)
    public static let policyGetDigest = TPMCommandCode(rawValue: 0x189)
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
