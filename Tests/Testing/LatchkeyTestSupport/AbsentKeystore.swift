package import Latchkey

/// A keystore whose hardware is not available: every call fails.
package struct AbsentKeystore: Keystore {
    package let backend = "tpm"
    package let mayHaveReader = false

    package init() {}

    private static let absent = KeystoreError(
        operation: "reach the hardware", code: .unavailable, reason: "it is not available",
        recovery: "Connect it.")

    package func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        throw Self.absent
    }
    package func owns(_ secret: SealedSecret) async -> Bool? { nil }
    package func endReuse() {}
    package func isAttestable(_ key: HardwareKey) -> Bool { false }

    package func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        throw Self.absent
    }

    package func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey { throw Self.absent }

    package func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature { throw Self.absent }

    package func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret { throw Self.absent }

    package func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes { throw Self.absent }

    package func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) { throw Self.absent }

    package func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        throw Self.absent
    }

    package func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation { throw Self.absent }

    package func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool { throw Self.absent }

    package func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey { throw Self.absent }
}
