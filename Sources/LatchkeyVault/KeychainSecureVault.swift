public import Latchkey

/// A vault whose credentials are bound to this machine's hardware and readable without user verification.
public struct KeychainSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    let record: Record

    /// The vault's key.
    public var key: String { slot.key }

    /// The stored credentials, or nil: `read()` gives the reason.
    ///
    /// They are nil if the space is not open, or if the stored value was deleted, damaged or changed its protection.
    public var credentials: Credentials! { try? slot.read(in: nil) }

    /// Reads the stored credentials.
    ///
    /// - Throws: `KeystoreError`; `wrongState` if the space is not open, `conflict` if the vault has changed its state,
    ///   `damaged` if another program changed the stored value.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func read() throws(KeystoreError) -> Credentials { try slot.read(in: nil) }

    /// Reads the stored credentials. Opens the space if it is not open.
    public func read() async throws(KeystoreError) -> Credentials {
        try await slot.openSpace()
        return try slot.read(in: nil)
    }

    /// Replaces the credentials.
    ///
    /// - Throws: `KeystoreError`; `conflict` if they were changed since this vault was retrieved.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func update(credentials: Credentials) throws(KeystoreError) -> KeychainSecureVault {
        KeychainSecureVault(slot: slot, record: try slot.makeNow(slot.updating(record, to: credentials)))
    }

    /// Replaces the credentials. Opens the space if it is not open.
    public func update(credentials: Credentials) async throws(KeystoreError) -> KeychainSecureVault {
        KeychainSecureVault(slot: slot, record: try await slot.make(slot.updating(record, to: credentials)))
    }

    /// Protects the credentials, so that reading requires user verification. Prompts once.
    ///
    /// The credentials are encrypted under a new key, which an older copy of the store does not contain.
    ///
    /// - Throws: `KeystoreError`; `cancelled`, `unsupported`, `conflict`. The credentials then stay unchanged.
    public func upgrade() async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await slot.protect(read(), ifGeneration: record.generation)
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
