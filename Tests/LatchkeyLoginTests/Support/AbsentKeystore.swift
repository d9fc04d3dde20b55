import Foundation
import Latchkey

/// A machine whose hardware is not there: every call fails.
struct AbsentKeystore: Keystore {
    let backend = "tpm"

    private var absent: KeystoreError {
        KeystoreError(operation: "reach the TPM", code: .unavailable, reason: "there is none", recovery: "")
    }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities { throw absent }
    func pinStatus() async throws(KeystoreError) -> PINStatus { throw absent }
    func createKey(_ request: KeyRequest, authorizedBy presence: any PresenceAuthority) async throws(KeystoreError)
        -> HardwareKey
    { throw absent }
    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature { throw absent }
    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret { throw absent }
    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes { throw absent }
    func delete(_ key: HardwareKey) async throws(KeystoreError) { throw absent }
    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) { throw absent }
    func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation { throw absent }
}
