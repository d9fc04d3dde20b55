/// A keystore whose hardware can revoke: it stores a value without which no copy of a key or
/// sealed secret works, and erases the value on request.
public protocol RevokingKeystore: Keystore {
    /// Creates a revocable key. The hardware stores the authorization of the key's use, and
    /// ``Keystore/delete(_:)`` erases it. A PIN change does not change the key, and disables the old PIN for
    /// every copy.
    ///
    /// Hardware has little room, so no unknown value may stay in it. A caller that does not keep
    /// the returned key must delete it. If this call throws, the caller must revoke the value that
    /// `willCreate` received. ``RecordContainer`` does both.
    ///
    /// - Parameter willCreate: Receives the authorization before the hardware creates it: see
    ///   ``sealRevocably(_:policy:for:authorizedBy:willCreate:)``.
    /// - Throws: As ``Keystore/createKey(_:authorizedBy:)``; `unsupported` if the hardware cannot revoke,
    ///   cannot do so under this policy, or has no room. Then it has stored nothing.
    func createRevocableKey(
        _ request: KeyRequest, authorizedBy presence: any PresenceAuthority,
        willCreate: @Sendable (SealedSecret) async throws(KeystoreError) -> Void
    ) async throws(KeystoreError) -> HardwareKey

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
    /// - Throws: As ``Keystore/seal(_:policy:for:authorizedBy:)``; `unsupported`, before any prompt, if the
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
}

extension Keystore {
    /// This keystore as one that revokes.
    ///
    /// - Throws: ``KeystoreError`` with code `unsupported` for hardware that cannot revoke.
    package func revoking() throws(KeystoreError) -> any RevokingKeystore {
        if let revoking = self as? any RevokingKeystore { return revoking }
        throw .unsupported(
            "this hardware cannot revoke keys and secrets",
            recovery: "Create the key or secret without revocation.")
    }
}
