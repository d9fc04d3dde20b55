import LatchkeySimulators
import TPM2

@testable import LatchkeyTPM

/// One handle of one command of the TPM, which can be a key (TPM 2.0 Part 3).
struct KeyRole: Sendable {
    /// The name of the command, and of the handle if a key can be several of them.
    let title: String
    let code: UInt32
    /// The handles of the command. `nil` is the place of the key.
    let handles: @Sendable (RoleBench) -> [UInt32?]
    /// The number of handles that need an authorization. They come first.
    let authorized: Int
    let parameters: @Sendable (RoleBench) -> TPMWriter

    init(
        _ title: String, _ code: UInt32, _ handles: @escaping @Sendable (RoleBench) -> [UInt32?],
        authorized: Int, _ parameters: @escaping @Sendable (RoleBench) -> TPMWriter
    ) {
        (self.title, self.code, self.handles) = (title, code, handles)
        (self.authorized, self.parameters) = (authorized, parameters)
    }

    /// A command whose only handle is the key.
    init(
        _ title: String, _ code: UInt32, isAuthorized: Bool = true,
        _ parameters: @escaping @Sendable (RoleBench) -> TPMWriter = { _ in TPMWriter() }
    ) {
        self.init(title, code, { _ in [nil] }, authorized: isAuthorized ? 1 : 0, parameters)
    }

    /// Whether the role needs an authorization of the key.
    func isAuthorized(in bench: RoleBench) -> Bool {
        handles(bench).firstIndex { $0 == nil }.map { $0 < authorized } ?? false
    }

    // MARK: Parameters

    private static var message: TPM2B { TPM2B([UInt8](repeating: 7, count: 32)) }
    private static let null = TPMAlgorithm.null
    private static var empty: TPM2B { TPM2B() }
    /// The base point of P-256 as a `TPM2B_ECC_POINT`.
    private static var point: TPM2B {
        TPM2B(
            ECCPoint(
                x: bytes("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"),
                y: bytes("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5")))
    }
    /// A signature by no key.
    private static let signature = TPMSignature.ecdsa(
        hash: .sha256, r: [UInt8](repeating: 1, count: 32), s: [UInt8](repeating: 1, count: 32))

    private static func bytes(_ hex: String) -> [UInt8] {
        stride(from: 0, to: hex.count, by: 2).compactMap {
            UInt8(hex.dropFirst($0).prefix(2), radix: 16)
        }
    }

    /// `qualifyingData` and a null scheme.
    private static let statement: @Sendable (RoleBench) -> TPMWriter = { _ in
        TPMWriter(message, null)
    }

    private static let hierarchy: UInt32 = 0x4000_0001
    private static let endorsement: UInt32 = 0x4000_000b
    private static let noHandle: UInt32 = 0x4000_0007

    // MARK: The roles

    static let all = uses + statements + credentials + administration + parents + sessions

    /// Commands that use the key's private part for a result.
    private static let uses: [KeyRole] = [
        KeyRole("Sign", 0x15d) { _ in
            TPMWriter(message, null, UInt16(0x8024), noHandle, UInt16(0))
        },
        KeyRole("HMAC, MAC", 0x155) { _ in TPMWriter(message, null) },
        KeyRole("HMAC_Start, MAC_Start", 0x15b) { _ in TPMWriter(empty, null) },
        KeyRole("SequenceUpdate", 0x15c) { _ in TPMWriter(message) },
        KeyRole("SequenceComplete", 0x13e) { _ in TPMWriter(message, hierarchy) },
        KeyRole("EventSequenceComplete", 0x185, { _ in [0x10, nil] }, authorized: 2) { _ in
            TPMWriter(message)
        },
        KeyRole("Unseal", 0x15e),
        KeyRole("RSA_Decrypt", 0x159) { _ in TPMWriter(message, null, empty) },
        KeyRole("ECDH_ZGen", 0x154) { _ in TPMWriter(point) },
        KeyRole("ZGen_2Phase", 0x18d) { _ in
            TPMWriter(point, point, UInt16(0x19), UInt16(0))
        },
        KeyRole("Commit", 0x18b) { _ in TPMWriter(point, empty, empty) },
        KeyRole("EncryptDecrypt", 0x164) { _ in
            TPMWriter(UInt8(0), UInt16(0x43), empty, message)
        },
        KeyRole("EncryptDecrypt2", 0x193) { _ in
            TPMWriter(message, UInt8(0), UInt16(0x43), empty)
        },
    ]

    /// Commands with a signed statement of the TPM.
    private static let statements: [KeyRole] = [
        KeyRole("Certify, signer", 0x148, { [$0.parent, nil] }, authorized: 2, statement),
        KeyRole("Certify, object", 0x148, { [nil, $0.helper] }, authorized: 2, statement),
        KeyRole("CertifyCreation, signer", 0x14a, { [nil, $0.helper] }, authorized: 1) { bench in
            TPMWriter(message, TPM2B(bench.creationHash), null, bench.creationTicket)
        },
        KeyRole("CertifyCreation, object", 0x14a, { [$0.helper, nil] }, authorized: 1) { bench in
            TPMWriter(
                message, TPM2B(bench.origin?.creationHash ?? bench.creationHash), null,
                bench.origin?.creationTicket ?? bench.creationTicket)
        },
        KeyRole("CertifyX509, signer", 0x197, { [$0.parent, nil] }, authorized: 2) { _ in
            TPMWriter(empty, null, empty)
        },
        KeyRole("CertifyX509, object", 0x197, { [nil, $0.helper] }, authorized: 2) { _ in
            TPMWriter(empty, null, empty)
        },
        KeyRole("Quote", 0x158) { _ in
            // One selection: SHA-256, a bitmap of 3 bytes, PCR 7.
            TPMWriter(
                message, null, UInt32(1), TPMAlgorithm.sha256, UInt8(3), UInt8(0x80), UInt8(0),
                UInt8(0))
        },
        KeyRole("GetTime", 0x14c, { _ in [endorsement, nil] }, authorized: 2, statement),
        KeyRole(
            "GetSessionAuditDigest", 0x14d, { [endorsement, nil, $0.audit] }, authorized: 2,
            statement),
        KeyRole(
            "GetCommandAuditDigest", 0x133, { _ in [endorsement, nil] }, authorized: 2, statement),
        KeyRole("NV_Certify", 0x184, { [nil, hierarchy, $0.index] }, authorized: 2) { _ in
            TPMWriter(message, null, UInt16(8), UInt16(0))
        },
    ]

    private static let credentials: [KeyRole] = [
        KeyRole("ActivateCredential, activated key", 0x147, { [nil, $0.parent] }, authorized: 2) {
            TPMWriter(TPM2B($0.credential.blob), TPM2B($0.credential.secret))
        },
        KeyRole("ActivateCredential, decrypting key", 0x147, { [$0.helper, nil] }, authorized: 2) {
            TPMWriter(TPM2B($0.credential.blob), TPM2B($0.credential.secret))
        },
        KeyRole("MakeCredential", 0x168, isAuthorized: false) { bench in
            TPMWriter(message, TPM2B(bench.helperName.bytes))
        },
    ]

    /// Commands about the key itself.
    private static let administration: [KeyRole] = [
        KeyRole("ObjectChangeAuth", 0x150, { [nil, $0.parent] }, authorized: 1) { _ in
            TPMWriter(message)
        },
        KeyRole("Duplicate", 0x14b, { _ in [nil, noHandle] }, authorized: 1) { _ in
            TPMWriter(empty, null)
        },
        KeyRole("EvictControl", 0x120, { _ in [hierarchy, nil] }, authorized: 1) { _ in
            TPMWriter(RoleBench.persistent)
        },
        KeyRole("ReadPublic", 0x173, isAuthorized: false),
        KeyRole("ContextSave", 0x162, isAuthorized: false),
        KeyRole("VerifySignature", 0x177, isAuthorized: false) { _ in
            TPMWriter(message, signature)
        },
        KeyRole("RSA_Encrypt", 0x174, isAuthorized: false) { _ in TPMWriter(message, null, empty) },
        KeyRole("ECDH_KeyGen", 0x163, isAuthorized: false),
    ]

    /// Commands with the key as a parent.
    private static let parents: [KeyRole] = [
        KeyRole("Create", 0x153) { bench in
            TPMWriter(TPM2B([0, 0, 0, 0]), TPM2B(bench.template), empty, UInt32(0))
        },
        KeyRole("CreateLoaded", 0x191) { bench in
            TPMWriter(TPM2B([0, 0, 0, 0]), TPM2B(bench.template))
        },
        KeyRole("Load", 0x157) { TPMWriter($0.helperPrivate, TPM2B($0.template)) },
        KeyRole("Import", 0x156) { TPMWriter(empty, TPM2B($0.template), empty, empty, null) },
        KeyRole("Rewrap, old parent", 0x152, { [nil, $0.parent] }, authorized: 1) { bench in
            TPMWriter(message, TPM2B(bench.helperName.bytes), empty)
        },
        KeyRole("Rewrap, new parent", 0x152, { [$0.parent, nil] }, authorized: 1) { bench in
            TPMWriter(message, TPM2B(bench.helperName.bytes), empty)
        },
        KeyRole("Duplicate, new parent", 0x14b, { [$0.helper, nil] }, authorized: 1) { _ in
            TPMWriter(empty, null)
        },
        KeyRole("ObjectChangeAuth, parent", 0x150, { [$0.helper, nil] }, authorized: 1) { _ in
            TPMWriter(message)
        },
    ]

    /// Commands with the key as the authority of a session.
    private static let sessions: [KeyRole] = [
        KeyRole("PolicySecret", 0x151, { [nil, $0.policy] }, authorized: 1) { _ in
            TPMWriter(empty, empty, empty, UInt32(0))
        },
        KeyRole("PolicySigned", 0x160, { [nil, $0.policy] }, authorized: 0) { _ in
            TPMWriter(empty, empty, empty, UInt32(0), signature)
        },
        KeyRole("StartAuthSession, bound entity", 0x176, { _ in [noHandle, nil] }, authorized: 0) {
            _ in TPMWriter(message, empty, UInt8(0), null, TPMAlgorithm.sha256)
        },
        KeyRole("StartAuthSession, salt", 0x176, { _ in [nil, noHandle] }, authorized: 0) { _ in
            TPMWriter(message, message, UInt8(0), null, TPMAlgorithm.sha256)
        },
    ]

    /// The commands that the TPM can have and whose handles cannot be a key: hierarchies, PCRs,
    /// sessions or NV indices.
    static let others: Set<UInt32> = [
        // NV indices.
        0x11f, 0x122, 0x12a, 0x132, 0x134, 0x135, 0x136, 0x137, 0x138, 0x13b, 0x149, 0x14e, 0x14f,
        0x169, 0x192,
        // Hierarchies and administration.
        0x121, 0x124, 0x125, 0x126, 0x127, 0x128, 0x129, 0x12b, 0x12c, 0x12d, 0x12e, 0x12f, 0x130,
        0x131, 0x139, 0x13a, 0x13f, 0x140, 0x141, 0x142, 0x144, 0x18a,
        // PCRs.
        0x13c, 0x13d, 0x182,
        // Assertions of a policy, whose only handle is the session.
        0x16a, 0x16b, 0x16c, 0x16d, 0x16e, 0x16f, 0x170, 0x171, 0x172, 0x17f, 0x180, 0x183, 0x187,
        0x188, 0x189, 0x18c, 0x18f, 0x190, 0x19b, 0x19c,
        // FlushContext ends the use of the key.
        0x165,
    ]
}
