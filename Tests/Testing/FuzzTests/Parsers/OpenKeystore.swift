import FoundationEssentials
import Latchkey

/// A keystore that unseals every blob to the same secret, so that the fuzzer reaches the code
/// behind a record key.
struct OpenKeystore: Keystore {
    let backend = "tpm"
    let mayHaveReader = false

    func owns(_ secret: SealedSecret) async -> Bool? { nil }
    func endReuse() {}
    func isAttestable(_ key: HardwareKey) -> Bool { false }

    func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool { throw refusal }

    private var secret: SecretBytes { SecretBytes([UInt8](repeating: 1, count: 32)) }

    private var refusal: KeystoreError {
        KeystoreError(
            operation: "fuzz", code: .unsupported, reason: "it only opens",
            recovery: "Use real hardware.")
    }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        KeystoreCapabilities(device: "fuzz", root: .swtpm, requirements: [.none], canAttest: false)
    }

    func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false)
    }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey { throw refusal }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature { throw refusal }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret { throw refusal }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes { self.secret }

    func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {}

    func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        key.replacing(blob: key.blob, label: label)
    }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        throw refusal
    }

    func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        throw refusal
    }
}
