import Crypto
import FoundationEssentials
import Latchkey
import Synchronization

/// A keystore without hardware, with an AES key in memory, that meets the contract.
///
/// It tests the contract: a keystore can meet it, and the contract detects each ``Fault``.
final class PaperKeystore: RevokingKeystore, AttestingKeystore {
    /// A violation of the contract.
    enum Fault: Sendable, CaseIterable {
        case asksAgain, ignoresPIN, readsHalfThePIN, believesTheRow, weakensPolicies,
            asksWhenLocked, sealsAnything
        case keepsOldPIN, repeatsItself, overlooksTheEnd, takesNoForAnError, forgetsToCount,
            checksNoPublicKey
        case takesAnyDevice, attestsAnything, asksEachTime, neverForgets, keepsLateProofs,
            ignoresForbiddenReuse, keepsForbiddenProofs, takesAnyLabel
        case revokesNoSecret, revokesNoKey, liftsLockoutWithoutProof, promisesAttestation,
            sharesItsIdentity
    }

    /// The content of a blob, encrypted with the device's key.
    struct Sheet: Codable {
        var policy: AccessPolicy
        var pin: Data?
        var content: Data
    }

    static let limit = 3
    let backend = "paper"
    let mayHaveReader = false
    let fault: Fault?
    let device: SymmetricKey
    let failures: Mutex<Int> = Mutex(0)
    /// The reusable PINs, and the number of times that all were forgotten.
    let proven: Mutex<(pins: Set<Data>, endings: Int)> = Mutex(([], 0))

    init(device: SymmetricKey = SymmetricKey(size: .bits256), fault: Fault? = nil) {
        self.device = device
        self.fault = fault
    }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        KeystoreCapabilities(
            device: "paper", root: .swtpm, requirements: [.none, .pin], canAttest: false,
            sealsRevocably: fault == .revokesNoSecret || fault == .revokesNoKey)
    }

    func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        let left = Self.limit - failures.withLock(\.self)
        return PINStatus(attemptsLeft: left, attemptLimit: Self.limit, isLockedOut: left <= 0)
    }

    func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        if fault == .liftsLockoutWithoutProof { failures.withLock { $0 = 0 } }
        return try await !pinStatus().isLockedOut
    }

    func createKey(_ request: KeyRequest, authorizedBy presence: any PresenceAuthority)
        async throws(KeystoreError)
        -> HardwareKey
    {
        try check(label: request.label)
        let key =
            fault == .repeatsItself
            ? try? P256.Signing.PrivateKey(rawRepresentation: SHA256.hash(data: [1]))
            : P256.Signing.PrivateKey()
        guard let key else { throw .damaged("it can't be made") }
        return HardwareKey(
            id: request.id, backend: backend, policy: request.policy,
            assurance: assurance(of: request.policy),
            publicKey: try PublicKey(x963Representation: key.publicKey.x963Representation),
            label: request.label,
            createdAt: Date(),
            blob: try await newBlob(key.rawRepresentation, request.policy, request.prompt, presence)
        )
    }

    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        guard fault == .revokesNoKey else {
            throw .unsupported("paper revokes nothing", recovery: "Use hardware.")
        }
        let plain = try await createKey(request, authorizedBy: presence)
        let authorization = SealedSecret(
            backend: backend, policy: plain.policy, assurance: plain.assurance, isRevocable: true,
            blob: Data())
        try await willCreate(authorization)
        return HardwareKey(
            id: plain.id, backend: backend, policy: plain.policy, assurance: plain.assurance,
            publicKey: plain.publicKey, label: plain.label, createdAt: plain.createdAt,
            blob: plain.blob,
            authorization: authorization)
    }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        var sheet = try sheet(key.blob)
        if fault == .believesTheRow { sheet.policy = key.policy }
        do {
            let privateKey = try P256.Signing.PrivateKey(rawRepresentation: sheet.content)
            guard
                fault == .checksNoPublicKey
                    || privateKey.publicKey.x963Representation == key.publicKey.x963Representation,
                sheet.policy == key.policy
            else { throw KeystoreError.damaged("the row does not match the blob") }
            try await authorize(sheet, prompt, presence)
            let signature = try privateKey.signature(for: PaperDigest(bytes: digest.bytes))
                .rawRepresentation
            guard let signature = ECDSASignature(rawRepresentation: signature) else {
                throw SheetError()
            }
            return signature
        } catch let error as KeystoreError {
            throw error
        } catch {
            throw .damaged("the blob holds no key")
        }
    }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        guard secret.count == 32 || fault == .sealsAnything else {
            throw .invalidInput("it has no 32 bytes")
        }
        let bytes = secret.withUnsafeBytes { Data($0) }
        return SealedSecret(
            backend: backend, policy: policy, assurance: assurance(of: policy),
            blob: try await newBlob(bytes, policy, prompt, presence))
    }

    func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        guard fault == .revokesNoSecret else {
            throw .unsupported("paper revokes nothing", recovery: "Use hardware.")
        }
        let plain = try await seal(secret, policy: policy, for: prompt, authorizedBy: presence)
        let sealed = SealedSecret(
            backend: backend, policy: policy, assurance: plain.assurance, isRevocable: true,
            blob: plain.blob)
        try await willCreate(sealed)
        return sealed
    }

    func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        guard secret.isRevocable else {
            throw .unsupported("paper revokes nothing", recovery: "Use hardware.")
        }
    }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        var sheet = try sheet(secret.blob)
        if fault == .believesTheRow { sheet.policy = secret.policy }
        guard sheet.policy == secret.policy else {
            throw .damaged("the row does not match the blob")
        }
        try await authorize(sheet, prompt, presence)
        return SecretBytes(sheet.content)
    }

    func endReuse() {
        guard fault != .neverForgets else { return }
        proven.withLock { $0 = ([], $0.endings + 1) }
    }

    func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {}

    func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try check(label: label)
        return key.replacing(blob: key.blob, label: label)
    }

    private func check(label: String?) throws(KeystoreError) {
        if fault != .takesAnyLabel { try KeyRequest.check(label: label) }
    }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        let sheets = try (keys.map(\.blob) + secrets.map(\.blob)).map {
            blob throws(KeystoreError) in try sheet(blob)
        }
        guard let first = sheets.first else { return (keys, secrets) }
        try await authorize(first, prompt, presence)
        let new = try await pinDigest(.init(purpose: .new, context: prompt), presence)
        let blobs = try sheets.map { sheet throws(KeystoreError) in
            try blob(
                Sheet(
                    policy: sheet.policy, pin: fault == .keepsOldPIN ? sheet.pin : new,
                    content: sheet.content))
        }
        return (
            zip(keys, blobs).map { $0.replacing(blob: $1) },
            zip(secrets, blobs.dropFirst(keys.count)).map { $0.replacing(blob: $1) }
        )
    }

    func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        guard fault == .attestsAnything else {
            throw .unsupported("paper attests nothing", recovery: "Use hardware.")
        }
        return KeyAttestation(
            format: "paper", statement: request.challenge, signature: Data(),
            publicArea: key.publicKey.x,
            attestationKey: Data(), certificates: [])
    }

    func isAttestable(_ key: HardwareKey) -> Bool { fault == .promisesAttestation }

    func attestationIdentity(for issuer: String) async throws(KeystoreError) -> AttestationIdentity
    {
        guard fault == .sharesItsIdentity else {
            throw .unsupported("paper has no endorsement key", recovery: "Use hardware.")
        }
        return AttestationIdentity(attestationKey: Data([1]), endorsementCertificates: [])
    }

    func activate(
        _ challenge: ActivationChallenge, for issuer: String
    ) async throws(KeystoreError) -> SecretBytes {
        throw .unsupported("paper has no endorsement key", recovery: "Use hardware.")
    }

    func keepAttestationCertificates(
        _ certificates: [Data], for issuer: String
    ) async throws(KeystoreError) {}

    func forgetAttestation(for issuer: String) async throws(KeystoreError) {}

    func attestationIssuers() async throws(KeystoreError) -> [String] { [] }

    func assurance(of policy: AccessPolicy) -> AssuranceLevel {
        AssuranceLevel(root: .swtpm, presence: policy.requirement == .none ? .none : .pin)
    }
}

struct SheetError: Error {}

/// A digest that was computed elsewhere.
struct PaperDigest: Digest {
    static let byteCount = 32
    let bytes: [UInt8]

    var description: String { "digest" }

    func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try bytes.withUnsafeBytes(body)
    }

    func makeIterator() -> Array<UInt8>.Iterator { bytes.makeIterator() }
}
