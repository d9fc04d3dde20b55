public import FoundationEssentials

/// Hardware that makes keys, keeps them, and uses them only when the right person is present.
///
/// Everything above this protocol speaks only this protocol. A keystore takes and returns values (``HardwareKey``,
/// ``SealedSecret``); where they are stored is the caller's business (``RecordStore``). Calls may be made from any
/// number of tasks; a keystore holds its device for an operation and never while a person is thinking.
///
/// Wherever a policy asks for a person, `presence` is asked, after everything that can fail without a person has been
/// checked. A person who declines makes the call throw `cancelled`.
public protocol Keystore: Sendable {
    /// The name under which keys of this kind are stored: `tpm` or `pkcs11`.
    var backend: String { get }

    /// Whether hardware of this kind may have a fingerprint reader of its own. Known without the hardware; by default it
    /// has none.
    var mayHaveReader: Bool { get }

    /// What this hardware is and can do. Needs no presence.
    func capabilities() async throws(KeystoreError) -> KeystoreCapabilities

    /// The state of the hardware's guard against guessing. Needs no presence.
    func pinStatus() async throws(KeystoreError) -> PINStatus

    /// The state of what counts wrong PINs of this key: the hardware's guard, or a count of the user's own. Needs no
    /// presence.
    func pinStatus(of key: HardwareKey) async throws(KeystoreError) -> PINStatus

    /// The same, of this sealed secret.
    func pinStatus(of secret: SealedSecret) async throws(KeystoreError) -> PINStatus

    /// Makes a P-256 key pair inside the hardware.
    ///
    /// Where the policy has a PIN, `presence` is asked for a new one. Nothing is stored: keep the returned value.
    ///
    /// - Throws: ``KeystoreError``; `unsupported` when the hardware can't enforce the policy, `invalidInput` for a PIN that is
    ///   too short where other users can reset the hardware's count of wrong PINs.
    func createKey(_ request: KeyRequest, authorizedBy presence: any PresenceAuthority) async throws(KeystoreError)
        -> HardwareKey

    /// Makes a key that the hardware can take back: it keeps what authorizes the key's use, and forgets it at
    /// ``delete(_:)``. A change of its PIN leaves the key as it is, and the old PIN is worthless for every copy.
    ///
    /// Room in the hardware is scarce, so nothing may stay there that nobody knows of. Whoever does not keep the returned
    /// key has to delete it, and has to revoke what was announced also where this throws; ``RecordContainer`` does all of
    /// that. By default it is refused.
    ///
    /// - Parameter announce: Is told what will authorize the key, before it is made: see
    ///   ``sealRevocably(_:policy:for:authorizedBy:announcing:)``.
    /// - Throws: As ``createKey(_:authorizedBy:)``; `unsupported` where the hardware can't, can't under that policy, or has
    ///   no room. Then nothing is left in it.
    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey

    /// Signs a digest: ECDSA over P-256. The signature has been verified with the key's public half.
    ///
    /// - Throws: ``KeystoreError``; `wrongProof`, `lockedOut`, `cancelled`, `wrongDevice`, `damaged`, `unavailable`, and
    ///   `invalidated` where the hardware has taken the key back.
    func sign(
        _ digest: MessageDigest, with key: HardwareKey, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> ECDSASignature

    /// Seals 32 bytes under a policy. Where the policy has a PIN, `presence` is asked for a new one.
    ///
    /// - Throws: ``KeystoreError``; `invalidInput` unless the secret has exactly 32 bytes.
    func seal(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret

    /// Seals 32 bytes so that the hardware can take them back: it keeps what they can't be had without, and forgets it at
    /// ``revoke(_:)``.
    ///
    /// Room in the hardware is scarce, so nothing may stay there that nobody knows of. Whoever does not keep the returned
    /// value has to revoke it, and what was announced also where this throws. By default it is refused.
    ///
    /// - Parameter announce: Is told what will be made, before it is: note it, so that it can be revoked whatever crashes.
    ///   It may be told again, and then what it was told before will not be made. Where it throws, nothing is made.
    /// - Throws: As ``seal(_:policy:for:authorizedBy:)``; `unsupported`, before anybody is asked, where the hardware
    ///   can't, or can't under that policy; `unsupported` also where it has no room, which may show only after that. Then
    ///   nothing is left in it.
    func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret

    /// Takes a secret back that was sealed revocably: no copy of it opens any more, whoever is present. One that was
    /// taken back already, or announced and never made, is no error. Needs no presence.
    ///
    /// - Throws: ``KeystoreError``; `unsupported` for a secret that was not sealed so.
    func revoke(_ secret: SealedSecret) async throws(KeystoreError)

    /// Gives the 32 bytes back.
    ///
    /// - Throws: ``KeystoreError``; `invalidated` where the hardware has taken them back.
    func unseal(
        _ secret: SealedSecret, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SecretBytes

    /// Forgets every proof that would still serve (``AccessPolicy/reuseSeconds``). From now on each use of a guarded key
    /// asks anew; of the uses that are under way each ends as it would, and leaves no proof behind. Call it where
    /// somebody locks something or logs out. Waits for nothing.
    ///
    /// By default it does nothing, which is right for hardware that keeps no proof.
    func endReuse()

    /// Removes whatever the hardware itself holds of the key and gives up without its owner. Nobody is asked; a key that
    /// is gone already is no error. The key is of no use to a keystore afterwards.
    func delete(_ key: HardwareKey) async throws(KeystoreError)

    /// Removes all that the hardware itself holds of the key: a token's private keys go only when their owner is there.
    ///
    /// Hardware that holds nothing asks nobody: by default this is ``delete(_:)``.
    func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError)

    /// Changes the PIN of all the given keys and secrets: asks once for the old PIN and once for the new one.
    ///
    /// The result has the same order. Keep it in one transaction: until then the old PIN holds, but for what is
    /// revocable. That is changed in its place, so it comes back as it was; a call that was interrupted among several of
    /// those is carried to its end by another with the same two PINs.
    func changePIN(
        of keys: [HardwareKey], secrets: [SealedSecret], for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (keys: [HardwareKey], secrets: [SealedSecret])

    /// Changes a key's label. If the key has its own PIN that the hardware checks, `presence` prompts for it.
    ///
    /// The key in the hardware does not change. Store the returned value in place of the old one. Until then, and in a copy
    /// of the store, the old value works under the old label. The default implementation changes only the label.
    ///
    /// - Throws: ``KeystoreError``; as ``sign(_:with:for:authorizedBy:)``.
    func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey

    /// Has the hardware certify that it made the key, for a verifier's challenge of 8 to 32 bytes.
    ///
    /// - Throws: ``KeystoreError``; `unsupported` where the hardware can't.
    func attest(_ key: HardwareKey, challenge: Data) async throws(KeystoreError) -> KeyAttestation
}

extension Keystore {
    public var mayHaveReader: Bool { false }

    public func pinStatus(of key: HardwareKey) async throws(KeystoreError) -> PINStatus { try await pinStatus() }

    public func pinStatus(of secret: SealedSecret) async throws(KeystoreError) -> PINStatus { try await pinStatus() }

    public func endReuse() {}

    public func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey {
        throw .unsupported(
            "create a key", "this hardware can't take back what it makes", recovery: "Make it without that.")
    }

    public func sealRevocably(
        _ secret: SecretBytes, policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        announcing announce: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> SealedSecret {
        throw .unsupported(
            "seal a secret", "this hardware can't take back what it seals", recovery: "Seal it without that.")
    }

    public func rename(
        _ key: HardwareKey, to label: String?, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> HardwareKey {
        key.replacing(blob: key.blob, label: label)
    }

    public func revoke(_ secret: SealedSecret) async throws(KeystoreError) {
        throw .unsupported(
            "take a secret back", "this hardware can't take back what it seals",
            recovery: "Delete every copy of the sealed secret.")
    }

    public func delete(
        _ key: HardwareKey, for prompt: PromptContext, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) {
        try await delete(key)
    }
}
