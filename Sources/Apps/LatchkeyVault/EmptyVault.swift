public import Latchkey

/// A vault in which nothing is stored.
public struct EmptyVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>

    /// The vault's key.
    public var key: String { slot.key }

    /// Stores the credentials without biometrics: bound to this machine's hardware, readable
    /// without user verification.
    ///
    /// - Throws: `KeystoreError`; `conflict` if the vault is no longer empty, `wrongState` if the
    ///   space is not open.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func storeToKeychain(credentials: Credentials) throws(KeystoreError)
        -> KeychainSecureVault<Credentials>
    {
        KeychainSecureVault(
            slot: slot,
            stored: StoredRecord(try slot.makeNow(slot.storing(credentials, ifGeneration: 0))),
            credentials: credentials)
    }

    /// Stores the credentials without biometrics. Opens the space if it is not open.
    public func storeToKeychain(
        credentials: Credentials
    ) async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        KeychainSecureVault(
            slot: slot,
            stored: StoredRecord(try await slot.make(slot.storing(credentials, ifGeneration: 0))),
            credentials: credentials)
    }

    /// Stores the credentials so that reading requires user verification. Prompts once. The
    /// returned vault is unlocked.
    ///
    /// - Throws: `KeystoreError`; `cancelled` if the user declines, `unsupported` if the hardware
    ///   cannot enforce the space's policy, `conflict` if the vault is no longer empty. Then
    ///   nothing is stored.
    public func storeToBiometrics(
        credentials: Credentials
    ) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try slot.checkEmpty()
        return try await slot.protect(credentials, ifGeneration: 0)
    }

    /// Deletes a value that was stored after this vault was retrieved.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes a value that was stored after this vault was retrieved.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as a case of ``Vault``.
    public func wrap() -> Vault<Credentials> {
        slot.isUserVerificationAvailable ? .emptyWithBiometrics(self) : .empty(self)
    }
}
