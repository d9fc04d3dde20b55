package import FoundationEssentials
package import Latchkey

/// A keystore that forwards all calls to another one, except those that it implements. Calls that
/// the other one does not have throw `unsupported`.
package protocol KeystoreWrapper: RevokingKeystore, AttestingKeystore {
    var keystore: any Keystore { get }
}

extension KeystoreWrapper {
    package var backend: String { keystore.backend }
    package var mayHaveReader: Bool { keystore.mayHaveReader }

    package func owns(_ secret: SealedSecret) async -> Bool? { await keystore.owns(secret) }

    package func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        try await keystore.capabilities()
    }

    package func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        try await keystore.pinStatus(of: subject)
    }

    package func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await keystore.createKey(request, authorizedBy: presence)
    }

    package func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        try await keystore.revoking().createRevocableKey(
            request, authorizedBy: presence, willCreate: willCreate)
    }

    package func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    package func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await keystore.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
    }

    package func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        try await keystore.revoking().sealRevocably(
            secret, policy: policy, for: prompt, authorizedBy: presence, willCreate: willCreate)
    }

    package func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        try await keystore.revoking().revoke(secret)
    }

    package func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await keystore.unseal(secret, for: prompt, authorizedBy: presence)
    }

    package func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        try await keystore.liftLockout(of: secret, for: prompt, authorizedBy: presence)
    }

    package func endReuse() { keystore.endReuse() }

    package func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {
        try await keystore.delete(key, for: prompt, authorizedBy: presence)
    }

    package func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        try await keystore.changePIN(
            of: keys, secrets: secrets, for: prompt, authorizedBy: presence)
    }

    package func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await keystore.rename(key, to: label, for: prompt, authorizedBy: presence)
    }

    package func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation {
        try await keystore.attest(key, for: request, authorizedBy: presence)
    }

    package func isAttestable(_ key: HardwareKey) -> Bool { keystore.isAttestable(key) }

    package func attestationIdentity(for issuer: String) async throws(KeystoreError)
        -> AttestationIdentity
    {
        try await keystore.attesting().attestationIdentity(for: issuer)
    }

    package func activate(
        _ challenge: ActivationChallenge, for issuer: String
    ) async throws(KeystoreError) -> SecretBytes {
        try await keystore.attesting().activate(challenge, for: issuer)
    }

    package func keepAttestationCertificates(
        _ certificates: [Data], for issuer: String
    ) async throws(KeystoreError) {
        try await keystore.attesting().keepAttestationCertificates(certificates, for: issuer)
    }

    package func forgetAttestation(for issuer: String) async throws(KeystoreError) {
        try await keystore.attesting().forgetAttestation(for: issuer)
    }

    package func attestationIssuers() async throws(KeystoreError) -> [String] {
        try await keystore.attesting().attestationIssuers()
    }
}
