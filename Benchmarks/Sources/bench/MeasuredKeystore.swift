import Foundation
import Latchkey

/// A keystore that measures the time of key uses.
struct MeasuredKeystore: RevokingKeystore, AttestingKeystore {
    let inner: any Keystore
    let waiting: Waiting

    var backend: String { inner.backend }
    var mayHaveReader: Bool { inner.mayHaveReader }

    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature {
        let start = ContinuousClock.now
        defer { waiting.add(since: start) }
        return try await inner.sign(digest, with: key, for: prompt, authorizedBy: presence)
    }

    func owns(_ secret: SealedSecret) async -> Bool? { await inner.owns(secret) }

    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities {
        try await inner.capabilities()
    }

    func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        try await inner.pinStatus(of: subject)
    }

    func createKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await inner.createKey(request, authorizedBy: presence)
    }

    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        try await inner.revoking().createRevocableKey(
            request, authorizedBy: presence, willCreate: willCreate)
    }

    func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        try await inner.revoking().sealRevocably(
            secret, policy: policy, for: prompt, authorizedBy: presence, willCreate: willCreate)
    }

    func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        try await inner.revoking().revoke(secret)
    }

    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await inner.seal(secret, policy: policy, for: prompt, authorizedBy: presence)
    }

    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes {
        try await inner.unseal(secret, for: prompt, authorizedBy: presence)
    }

    func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        try await inner.liftLockout(of: secret, for: prompt, authorizedBy: presence)
    }

    func endReuse() { inner.endReuse() }

    func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) {
        try await inner.delete(key, for: prompt, authorizedBy: presence)
    }

    func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        try await inner.rename(key, to: label, for: prompt, authorizedBy: presence)
    }

    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret]) {
        try await inner.changePIN(of: keys, secrets: secrets, for: prompt, authorizedBy: presence)
    }

    func attest(_ key: HardwareKey, for request: AttestationRequest) async throws(KeystoreError)
        -> KeyAttestation
    {
        try await inner.attest(key, for: request)
    }

    func isAttestable(_ key: HardwareKey) -> Bool { inner.isAttestable(key) }

    func attestationIdentity(for issuer: String) async throws(KeystoreError) -> AttestationIdentity
    {
        try await inner.attesting().attestationIdentity(for: issuer)
    }

    func activate(_ challenge: ActivationChallenge, for issuer: String) async throws(KeystoreError)
        -> SecretBytes
    {
        try await inner.attesting().activate(challenge, for: issuer)
    }

    func keepAttestationCertificates(_ certificates: [Data], for issuer: String)
        async throws(KeystoreError)
    {
        try await inner.attesting().keepAttestationCertificates(certificates, for: issuer)
    }

    func forgetAttestation(for issuer: String) async throws(KeystoreError) {
        try await inner.attesting().forgetAttestation(for: issuer)
    }

    func attestationIssuers() async throws(KeystoreError) -> [String] {
        try await inner.attesting().attestationIssuers()
    }
}
