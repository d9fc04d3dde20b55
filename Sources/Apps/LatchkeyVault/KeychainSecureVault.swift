public import Latchkey

/// A vault whose credentials are bound to this machine's hardware and readable without user
/// verification.
public struct KeychainSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    let stored: StoredRecord
    /// The credentials at the time when this vault was retrieved or created.
    public let credentials: Credentials

    /// The vault's key.
    public var key: String { slot.key }

    /// Reads the stored credentials again.
    ///
    /// - Throws: `KeystoreError`; `wrongState` if the space is not open, `conflict` if the vault
    ///   has changed its state, `damaged` if another program changed the stored value.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func read() throws(KeystoreError) -> Credentials { try slot.read(in: nil) }

    /// Reads the stored credentials again. Opens the space if it is not open.
    public func read() async throws(KeystoreError) -> Credentials {
        try await slot.openSpace()
        return try slot.read(in: nil)
    }

    /// Replaces the credentials. Can be repeated on the same value.
    ///
    /// - Throws: `KeystoreError`; `conflict` if another vault or program changed them since this
    ///   vault was retrieved.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func update(credentials: Credentials) throws(KeystoreError) -> KeychainSecureVault {
        stored.record = try slot.makeNow(slot.updating(stored.record, to: credentials))
        return KeychainSecureVault(slot: slot, stored: stored, credentials: credentials)
    }

    /// Replaces the credentials. Opens the space if it is not open.
    public func update(credentials: Credentials) async throws(KeystoreError) -> KeychainSecureVault
    {
        stored.record = try await slot.make(slot.updating(stored.record, to: credentials))
        return KeychainSecureVault(slot: slot, stored: stored, credentials: credentials)
    }

    /// Protects the credentials, so that reading requires user verification. Prompts once.
    ///
    /// The credentials are encrypted under a new key, which an older copy of the store does not
    /// contain.
    ///
    /// - Throws: `KeystoreError`; `cancelled`, `unsupported`, `conflict`. The credentials then stay
    ///   unchanged.
    public func upgrade() async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await slot.protect(read(), ifGeneration: stored.record.generation)
    }

    /// Deletes the credentials.
    ///
    /// - Throws: `KeystoreError` if anything remains.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes the credentials.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as a case of ``Vault``.
    public func wrap() -> Vault<Credentials> {
        slot.isUserVerificationAvailable ? .keychainUpgradable(self) : .keychain(self)
    }
}
