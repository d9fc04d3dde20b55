public import Latchkey

/// A vault whose credentials are bound to this machine's hardware and readable without anybody present.
public struct KeychainSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    let record: Record

    /// The vault's name.
    public var key: String { slot.key }

    /// The credentials as they are stored now, or nil: `read()` says why.
    ///
    /// They are nil when the space is not open, and when what is stored was taken away, changed its protection or was
    /// damaged.
    public var credentials: Credentials! { try? slot.read(in: nil) }

    /// The credentials as they are stored now.
    ///
    /// - Throws: `KeystoreError`; `wrongState` when the space is not open, `conflict` when the vault is in another state
    ///   by now, `damaged` when what is stored is not what this program stored.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func read() throws(KeystoreError) -> Credentials { try slot.read(in: nil) }

    /// The credentials as they are stored now. Opens the space if it isn't.
    public func read() async throws(KeystoreError) -> Credentials {
        try await slot.openSpace()
        return try slot.read(in: nil)
    }

    /// Replaces the credentials.
    ///
    /// - Throws: `KeystoreError`; `conflict` when they were changed since this vault was retrieved.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func update(credentials: Credentials) throws(KeystoreError) -> KeychainSecureVault {
        let record = try slot.makeNow(slot.updatingPlain(credentials, ifGeneration: record.generation))
        return KeychainSecureVault(slot: slot, record: record)
    }

    /// Replaces the credentials. Opens the space if it isn't.
    public func update(credentials: Credentials) async throws(KeystoreError) -> KeychainSecureVault {
        let record = try await slot.make(slot.updatingPlain(credentials, ifGeneration: record.generation))
        return KeychainSecureVault(slot: slot, record: record)
    }

    /// Protects the credentials, so that only somebody who is present can read them. Whoever is present is asked once.
    ///
    /// The credentials are encrypted under a new key: a copy of the store from before does not open it.
    ///
    /// - Throws: `KeystoreError`; `cancelled`, `unsupported`, `conflict`. The credentials then stay as they were.
    public func upgrade() async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        let credentials = try await read()
        let prepared = try await slot.newClass("upgrade")
        let record = try await slot.make(
            slot.storingGated(credentials, in: prepared, ifGeneration: record.generation))
        return BiometricsSecureVault(slot: slot, record: record, session: prepared.session)
    }

    /// Deletes the credentials.
    ///
    /// - Throws: `KeystoreError` when anything is left.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes the credentials.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as one of the cases.
    public func wrap() -> Vault<Credentials> { slot.wrap(self) }
}
