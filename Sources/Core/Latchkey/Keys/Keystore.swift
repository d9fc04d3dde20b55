public import FoundationEssentials

/// Hardware that creates keys, keeps them, and enforces user verification before it uses them.
///
/// The layers above use only this protocol. A keystore takes and returns values (``HardwareKey``,
/// ``SealedSecret``); the caller stores them, for example in a ``RecordStore``. Any number of tasks
/// can call a keystore. It reserves its device for one operation, and never while it waits for the
/// user.
///
/// If a policy requires user verification, the keystore prompts through `presence`, after all
/// checks that need no user. If the user declines, the call throws `cancelled`.
public protocol Keystore: Sendable {
    /// The kind of keystore, as stored in its keys: `tpm` or `pkcs11`.
    var backend: String { get }

    /// Whether hardware of this kind can have its own fingerprint reader. Does not use the
    /// hardware.
    var mayHaveReader: Bool { get }

    /// Reads the properties of the hardware. Does not prompt.
    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities

    /// Reads the hardware's counter of wrong PINs. Does not prompt.
    func pinStatus() async throws(KeystoreError) -> PINStatus

    /// Reads the counter of wrong PINs that protects a key: the hardware's, or the user's own. Does
    /// not prompt.
    func pinStatus(of key: HardwareKey) async throws(KeystoreError) -> PINStatus

    /// Reads the counter of wrong PINs that protects a sealed secret. Does not prompt.
    func pinStatus(of secret: SealedSecret) async throws(KeystoreError) -> PINStatus

    /// Whether this hardware sealed the secret. Does not prompt, and changes nothing. If the
    /// hardware cannot change while the process runs, the keystore queries it once and keeps the
    /// answer.
    ///
    /// - Returns: nil if the hardware does not answer, or if the keystore cannot determine it.
    func owns(_ secret: SealedSecret) async -> Bool?

    /// Creates a P-256 key pair inside the hardware.
    ///
    /// If the policy includes a PIN, `presence` prompts for a new one. The keystore stores nothing:
    /// keep the returned value.
    ///
    /// - Throws: ``KeystoreError``; `unsupported` if the hardware cannot enforce the policy,
    ///   `invalidInput` for a PIN that is too short where other users can reset the hardware's
    ///   counter of wrong PINs.
    func createKey(_ request: KeyRequest, authorizedBy presence: any PresenceAuthority)
        async throws(KeystoreError)
        -> HardwareKey

    /// Creates a revocable key. The hardware stores the authorization of the key's use, and
    /// ``delete(_:)`` erases it. A PIN change does not change the key, and disables the old PIN for
    /// every copy.
    ///
    /// Hardware has little room, so no unknown value may stay in it. A caller that does not keep
    /// the returned key must delete it. If this call throws, the caller must revoke the value that
    /// `willCreate` received. ``RecordContainer`` does both.
    ///
    /// - Parameter willCreate: Receives the authorization before the hardware creates it: see
    ///   ``sealRevocably(_:policy:for:authorizedBy:willCreate:)``.
    /// - Throws: As ``createKey(_:authorizedBy:)``; `unsupported` if the hardware cannot revoke,
    ///   cannot do so under this policy, or has no room. Then it has stored nothing.
    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey

    /// Signs a digest with ECDSA over P-256. The keystore has verified the signature with the
    /// public key.
    ///
    /// - Throws: ``KeystoreError``; `wrongProof`, `lockedOut`, `cancelled`, `wrongDevice`,
    ///   `damaged`, `unavailable`, and `invalidated` if the key was revoked.
    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature

    /// Seals 32 bytes under a policy. If the policy includes a PIN, `presence` prompts for a new
    /// one.
    ///
    /// - Throws: ``KeystoreError``; `invalidInput` unless the secret has exactly 32 bytes.
    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret

    /// Seals 32 bytes revocably. The hardware stores a value that unsealing requires, and
    /// ``revoke(_:)`` erases it.
    ///
    /// Hardware has little room, so no unknown value may stay in it. A caller that does not keep
    /// the returned value must revoke it. If this call throws, the caller must revoke the value
    /// that `willCreate` received.
    ///
    /// - Parameter willCreate: Receives the secret before the hardware creates it. Record it, so
    ///   that it can be revoked after a crash. A later value in the same call replaces an earlier
    ///   one, which was not created. If `willCreate` throws, nothing is created.
    /// - Throws: As ``seal(_:policy:for:authorizedBy:)``; `unsupported`, before any prompt, if the
    ///   hardware cannot revoke or cannot do so under this policy; `unsupported`, possibly after a
    ///   prompt, if it has no room. Then it has stored nothing.
    func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret

    /// Revokes a secret that was sealed revocably: no copy of it opens again. Revoking a secret
    /// again, or one that was never created, is no error. Does not prompt.
    ///
    /// - Throws: ``KeystoreError``; `unsupported` for a secret that is not revocable.
    func revoke(_ secret: SealedSecret) async throws(KeystoreError)

    /// Unseals 32 bytes.
    ///
    /// - Throws: ``KeystoreError``; `invalidated` if the secret was revoked.
    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes

    /// Lifts a lockout with a proof that is stronger than the locked one, for example the
    /// unblocking code (PUK) of a token. `presence` prompts for it. Call it after
    /// ``unseal(_:for:authorizedBy:)`` threw `lockedOut`, and then unseal the secret again.
    ///
    /// Does not prompt if the secret's policy accepts a proof that is not locked out, or if the
    /// lockout has ended. Never lifts a lockout without a proof. If the user chooses a new PIN for
    /// a token, that PIN answers the next prompt of the same operation.
    ///
    /// - Returns: Whether the hardware accepts a proof now; false if the hardware cannot lift the
    ///   lockout.
    /// - Throws: ``KeystoreError``; `cancelled`, `wrongProof` for a wrong code, `lockedOut` if the
    ///   stronger proof is also locked out.
    func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool

    /// Discards every proof that could be used again (``AccessPolicy/reuseSeconds``). From now on
    /// each use of a protected key prompts again; operations that have started finish as usual and
    /// leave no proof. Call it when the user locks the app or logs out. Returns at once.
    func endReuse()

    /// Removes everything of the key that the hardware stores and deletes without its owner. Does
    /// not prompt. Deleting a missing key is no error. The keystore cannot use the key afterwards.
    func delete(_ key: HardwareKey) async throws(KeystoreError)

    /// Removes everything of the key that the hardware stores. Prompts only if the key is on a
    /// token, because a token requires its PIN to delete a private key.
    func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError)

    /// Changes the PIN of all the given keys and secrets. Prompts once for the old PIN and once for
    /// the new one.
    ///
    /// The result has the same order. Store it in one transaction: until then the old PIN opens
    /// everything that is not revocable. The hardware changes revocable values in place, and they
    /// are returned unchanged. If a call was interrupted after some of those, another call with the
    /// same two PINs finishes the change.
    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret])

    /// Changes a key's label. If the key has its own PIN that the hardware checks, `presence`
    /// prompts for it.
    ///
    /// The key in the hardware does not change. Store the returned value in place of the old one.
    /// Until then, and in a copy of the store, the old value works under the old label.
    ///
    /// - Throws: ``KeystoreError``; as ``sign(_:with:for:authorizedBy:)``.
    func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey

    /// Returns the hardware's statement about a key, for a verifier's challenge. Does not prompt.
    ///
    /// A TPM signs with the attestation key for the request's issuer, and creates that key at the
    /// first use. The result contains its certificate if ``keepAttestationCertificates(_:for:)``
    /// stored one that is still valid. A token returns the statement that it made when it created
    /// the key, regardless of the form.
    ///
    /// - Throws: ``KeystoreError``; `invalidInput` for a challenge of a wrong length or an issuer
    ///   that is no URL, `unsupported` if the hardware cannot attest the key in this form (see
    ///   ``isAttestable(_:)``), `wrongState` if the form contains the certificate of the
    ///   attestation key and there is none: activate the attestation key first.
    func attest(_ key: HardwareKey, for request: AttestationRequest) async throws(KeystoreError)
        -> KeyAttestation

    /// Whether ``attest(_:for:)`` works for the key in the forms of the standards, without a
    /// prompt. Keys that an earlier version created under a policy with user verification can only
    /// be attested in the form ``AttestationRequest/Form/creation``. Does not use the hardware.
    func isAttestable(_ key: HardwareKey) -> Bool

    /// Returns the hardware's identity towards one issuer of certificates for attestation keys.
    /// Does not prompt. Creates the attestation key at the first use.
    ///
    /// **The endorsement certificates identify the machine permanently.** Send them only to an
    /// issuer that announces support, and tell the user before.
    ///
    /// - Parameter issuer: The URL of the issuer; `""` is the key for local use. Each issuer gets
    ///   its own attestation key.
    /// - Throws: ``KeystoreError``; `unsupported` if the hardware needs no activation: a token has
    ///   a certificate of its manufacturer, and attests without it.
    func attestationIdentity(for issuer: String) async throws(KeystoreError) -> AttestationIdentity

    /// Opens an issuer's challenge. This proves that the attestation key for the issuer and the
    /// endorsement key are in the same TPM. Does not prompt. May take some seconds if the
    /// endorsement key is not kept in the TPM.
    ///
    /// - Returns: The secret to return to the issuer.
    /// - Throws: ``KeystoreError``; `refused` if the challenge is not for this TPM and attestation
    ///   key, `unsupported` if the TPM has no endorsement key with a certificate.
    func activate(_ challenge: ActivationChallenge, for issuer: String) async throws(KeystoreError)
        -> SecretBytes

    /// Stores the certificate that an issuer returned after ``activate(_:for:)``, in place of an
    /// earlier one.
    ///
    /// If the process ends before this call, ``attestationIdentity(for:)`` returns the same
    /// attestation key without a certificate, and the activation can be repeated.
    ///
    /// - Parameter certificates: The certificate of the attestation key and its issuers', DER
    ///   (`x5c`).
    /// - Throws: ``KeystoreError``; `invalidInput` unless the first certificate is that of the
    ///   attestation key for the issuer.
    func keepAttestationCertificates(_ certificates: [Data], for issuer: String)
        async throws(KeystoreError)

    /// Deletes the attestation key for an issuer and its certificate. The next use creates another
    /// one, which the issuer cannot link to the old one by the key. Forgetting an issuer again is
    /// no error.
    func forgetAttestation(for issuer: String) async throws(KeystoreError)

    /// Returns the issuers for which there is an attestation key, in alphabetical order. Does not
    /// use the hardware.
    func attestationIssuers() async throws(KeystoreError) -> [String]
}

extension Keystore {
    /// Returns the hardware's statement that it created the key, in the form
    /// ``AttestationRequest/Form/creation``, by the attestation key for local use.
    ///
    /// - Parameter challenge: 8 to 32 bytes.
    /// - Throws: As ``attest(_:for:)``.
    public func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError)
        -> KeyAttestation
    {
        try await attest(key, for: AttestationRequest(challenge: challenge, form: .creation))
    }
}

/// A keystore of this package. The default implementations are for hardware that has no fingerprint
/// reader, cannot determine which secrets it sealed, stores no proof, and cannot revoke. This
/// hardware has one counter of wrong PINs that no proof resets, and deletes keys without a prompt.
/// Renaming changes only the label. Attestation keys need no activation. ``Keystore`` itself has no
/// default implementations, because a keystore that forwards to another one must not omit a call.
package protocol BackendKeystore: Keystore {}

extension BackendKeystore {
    public var mayHaveReader: Bool { false }

    public func owns(_ secret: SealedSecret) async -> Bool? { nil }

    public func pinStatus(of key: HardwareKey) async throws(KeystoreError) -> PINStatus {
        try await pinStatus()
    }

    public func pinStatus(of secret: SealedSecret) async throws(KeystoreError) -> PINStatus {
        try await pinStatus()
    }

    public func liftLockout(
        of secret: SealedSecret, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> Bool {
        try await !pinStatus(of: secret).isLockedOut
    }

    public func endReuse() {}

    public func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        throw .unsupported(
            "this hardware cannot create revocable keys",
            recovery: "Create a key that is not revocable.")
    }

    public func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        throw .unsupported(
            "this hardware cannot seal secrets revocably",
            recovery: "Seal it without revocation.")
    }

    public func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        key.replacing(blob: key.blob, label: label)
    }

    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        throw .unsupported(
            "this hardware cannot revoke secrets",
            recovery: "Delete every copy of the sealed secret.")
    }

    public func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await delete(key)
    }

    public func isAttestable(_ key: HardwareKey) -> Bool { false }

    public func attestationIdentity(for issuer: String) async throws(KeystoreError)
        -> AttestationIdentity
    {
        throw Self.noActivation
    }

    public func activate(
        _ challenge: ActivationChallenge, for issuer: String
    ) async throws(KeystoreError) -> SecretBytes {
        throw Self.noActivation
    }

    public func keepAttestationCertificates(
        _ certificates: [Data], for issuer: String
    ) async throws(KeystoreError) {
        throw Self.noActivation
    }

    public func forgetAttestation(for issuer: String) async throws(KeystoreError) {}

    public func attestationIssuers() async throws(KeystoreError) -> [String] { [] }

    private static var noActivation: KeystoreError {
        .unsupported(
            "this hardware has no endorsement key",
            recovery: "Attest the key without an activation, or use a TPM.")
    }
}
