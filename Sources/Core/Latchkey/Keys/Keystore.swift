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

    /// Reads a counter of wrong PINs: the hardware's, or the one that protects a key or a sealed
    /// secret, which can be the user's own. Does not prompt.
    func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus

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

    /// Removes everything of the key that the hardware stores. Deleting a missing key is no error.
    /// The keystore cannot use the key afterwards.
    ///
    /// - Parameter presence: Prompts for the PIN if the key is on a token, because a token requires
    ///   its PIN to delete a private key. With nil, nothing prompts, and a token keeps the half of
    ///   the key that needs its PIN.
    func delete(
        _ key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: (any PresenceAuthority)?
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
    /// - Parameter label: As ``KeyRequest/label``; nil for none.
    /// - Throws: ``KeystoreError``; as ``sign(_:with:for:authorizedBy:)``, and `invalidInput` for a
    ///   label that is not valid.
    func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey

    /// Returns the hardware's statement about a key, for a verifier's challenge.
    ///
    /// Prompts for the PIN only for a key in a TPM with its own PIN, and only in the forms with
    /// `TPM2_Certify`: ``AttestationRequest/Form/certify`` and those of the standards.
    ///
    /// A TPM signs with the attestation key for the request's issuer, and creates that key at the
    /// first use. The result contains its certificate if ``AttestingKeystore/keepAttestationCertificates(_:for:)``
    /// stored one that is still valid. A token returns the statement that it made when it created
    /// the key, regardless of the form.
    ///
    /// - Parameter presence: Asks for the PIN. nil refuses to prompt.
    /// - Throws: ``KeystoreError``; `invalidInput` for a challenge of a wrong length or an issuer
    ///   that is no URL, `unsupported` if the hardware cannot attest the key in this form (see
    ///   ``isAttestable(_:)``) or a prompt is necessary and refused, `wrongState` if the form
    ///   contains the certificate of the attestation key and there is none: activate the
    ///   attestation key first.
    func attest(
        _ key: HardwareKey, for request: AttestationRequest,
        authorizedBy presence: (any PresenceAuthority)?
    ) async throws(KeystoreError) -> KeyAttestation

    /// Whether ``attest(_:for:authorizedBy:)`` works for the key. Does not use the hardware.
    func isAttestable(_ key: HardwareKey) -> Bool

}

extension Keystore {
    /// Reads the hardware's counter of wrong PINs. Does not prompt.
    public func pinStatus() async throws(KeystoreError) -> PINStatus {
        try await pinStatus(of: .hardware)
    }

    /// Removes everything of the key that the hardware deletes without a prompt.
    public func delete(_ key: HardwareKey) async throws(KeystoreError) {
        try await delete(key, for: PromptContext(reason: "delete a key"), authorizedBy: nil)
    }

    /// Returns the hardware's statement about a key. Does not prompt.
    ///
    /// - Throws: As ``attest(_:for:authorizedBy:)``.
    public func attest(
        _ key: HardwareKey, for request: AttestationRequest
    ) async throws(KeystoreError) -> KeyAttestation {
        try await attest(key, for: request, authorizedBy: nil)
    }

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
