@testable import LatchkeyTPM
@testable import TPM2

/// One call for each command with response parameters, and keystore operations of several commands.
enum TPMCalls {
    typealias Call = @Sendable (TPM) throws -> Void

    static let template = PublicArea(
        attributes: [.fixedTPM, .fixedParent, .sensitiveDataOrigin, .userWithAuth, .sign],
        detail: .ecc(ECCParameters(scheme: .ecdsaSHA256), ECCPoint(x: [], y: [])))

    /// The generator of P-256 (SEC 2 section 2.4.2) as a key in a TPM.
    static let key = object(KeyTemplates.storageRoot)
    static let signer = object(KeyTemplates.attestationKey)

    static let index = NVPublicArea(
        index: TPMHandle(rawValue: 0x0180_0001), attributes: [.ownerRead, .written], dataSize: 8)

    /// The first byte of an input is the index in this list: add new calls at the end.
    static let all: [Call] = [
        { _ = try $0.properties(from: .revision, count: 12) },
        { _ = try $0.handles(from: .persistentFirst) },
        { _ = try $0.hasCommand(.hmac) },
        { _ = try $0.properties(from: .permanent, count: 1) },
        { _ = try $0.handles(from: .transientFirst) },
        { _ = try $0.execute(Hmac(of: [1], with: key)) },
        { _ = try $0.execute(ReadPublic(.storageRootKey)) },
        { _ = try $0.execute(ReadClock()) },
        { _ = try $0.execute(StartAuthSession(.hmac, saltedTo: key)) },
        { _ = try $0.execute(Create(template, under: key)) },
        { _ = try $0.execute(Load(try privatePart, key.publicArea, under: key)) },
        { _ = try $0.execute(LoadExternal(key.publicArea)) },
        { _ = try $0.execute(CreatePrimary(template, in: .owner)) },
        {
            _ = try $0.execute(
                CertifyCreation(
                    of: key, creationHash: [1], creationTicket: .nullHashCheck, challenge: [2],
                    by: signer))
        },
        { _ = try $0.execute(Certify(key, by: signer, challenge: [2])) },
        {
            _ = try $0.execute(
                NVCertify(try NVIndex(publicArea: index), by: signer, challenge: [2]))
        },
        {
            _ = try $0.execute(ActivateCredential([1], secret: [2], for: signer, with: key))
        },
        { _ = try $0.endorsementKeys() },
        { _ = try $0.execute(ContextSave(key)) },
        { _ = try $0.execute(ContextLoad(context)) },
        { _ = try $0.execute(NVReadPublic(index.index)) },
        { _ = try $0.nvRead(try NVIndex(publicArea: index)) },
        {
            _ = try $0.execute(ObjectChangeAuth(of: key, under: key, to: .empty))
        },
        { _ = try $0.execute(PolicyGetDigest(), in: session) },
        { _ = try $0.execute(PolicySecret(Approval(), of: key), in: session) },
        {
            _ = try $0.execute(
                PolicySigned(Approval(), signature: signature, by: signer), in: session)
        },
        {
            _ = try $0.execute(Sign([UInt8](repeating: 1, count: 32), with: signer))
        },
        { _ = try $0.execute(Unseal(key)) },
        { try $0.execute(NVUndefineSpace(try NVIndex(publicArea: index))) },
        { try $0.execute(EvictControl(key, at: .storageRootKey)) },
        { _ = try $0.suspend(session) },
        { _ = try TPMIdentity($0).description },
        { _ = try LockoutState($0).attemptsLeft },
        { _ = try $0.discoverStorageRoot(pinned: nil) },
        { try $0.execute(FlushContext(key.handle)) },
    ]

    private static var session: Session {
        Session(
            handle: TPMHandle(rawValue: 0x0300_0000), kind: .policy, salt: nil, nonceCaller: [1],
            nonceTPM: [UInt8](repeating: 3, count: 32))
    }

    private static let signature = TPMSignature.ecdsa(hash: .sha256, r: [1], s: [2])
    private static let context = SavedContext(
        sequence: 1, savedHandle: TPMHandle(rawValue: 0x8000_0000), hierarchy: .null,
        blob: [1, 2, 3])

    private static var privatePart: PrivateBlob {
        get throws { try PrivateBlob(unmarshalling: [0, 1, 0]) }
    }

    private static func object(_ template: PublicArea) -> TPMObject {
        var area = template
        if case .ecc(let parameters, _) = template.detail {
            area.detail = .ecc(parameters, ECCPoint(x: bytes(generatorX), y: bytes(generatorY)))
        }
        guard
            let object = try? TPMObject(handle: TPMHandle(rawValue: 0x8000_0000), publicArea: area)
        else {
            preconditionFailure("SHA-256 is known")
        }
        return object
    }

    private static let generatorX =
        "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    private static let generatorY =
        "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"

    private static func bytes(_ digits: String) -> [UInt8] {
        let digits = digits.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
    }
}
