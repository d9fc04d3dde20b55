import Foundation
import Latchkey

/// Hardware that is not there: whatever reaches for it fails.
struct AbsentKeystore: Keystore {
    let backend = "tpm"

    private static let absent = KeystoreError(
        operation: "reach the hardware", code: .unavailable, reason: "it is not there", recovery: "Plug it in.")

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities { throw Self.absent }
    func pinStatus() async throws(KeystoreError) -> PINStatus { throw Self.absent }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey { throw Self.absent }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature { throw Self.absent }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret { throw Self.absent }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes { throw Self.absent }

    func delete(_ key: HardwareKey) async throws(KeystoreError) { throw Self.absent }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) { throw Self.absent }

    func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation {
        throw Self.absent
    }
}
