public import Latchkey

/// A vault that only somebody who is present can open, and that is open in this program.
///
/// All copies share one session. ``lock()`` on any of them ends it for all, for good: who unlocks the vault again gets
/// another.
public struct BiometricsSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    let record: Record
    let session: ClassSession

    /// The vault's name.
    public var key: String { slot.key }

    /// The credentials as they are stored now, or nil once the vault was locked: ``read()`` says why.
    public var credentials: Credentials! { try? read() }

    /// The credentials as they are stored now. Asks nobody and uses no hardware.
    ///
    /// - Throws: `KeystoreError`; `wrongState` once the vault was locked, `conflict` when its protection was changed or
    ///   it was reset, `damaged` when what is stored is not what this program stored.
    public func read() throws(KeystoreError) -> Credentials {
        try checkOpen("read")
        return try slot.read(in: session)
    }

    /// Replaces the credentials. The vault is open, so nobody is asked.
    ///
    /// - Throws: `KeystoreError`; `wrongState` once the vault was locked, `conflict` when the credentials were changed
    ///   since this vault was retrieved.
    public func update(credentials: Credentials) async throws(KeystoreError) -> BiometricsSecureVault {
        try checkOpen("update")
        let row = try slot.place().row
        let change = VaultSlot<Credentials>.Change(
            records: [row.put(try slot.encode(credentials), in: record.protection, ifGeneration: record.generation)],
            classes: [])
        return BiometricsSecureVault(slot: slot, record: try await slot.make(change), session: session)
    }

    /// Stores the credentials without biometrics, and destroys the key that protected them. Where the hardware can take that
    /// back it does so soon after, and no copy of the store opens it any more.
    ///
    /// - Throws: `KeystoreError`; `wrongState` once the vault was locked, `conflict`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgrade() throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        let record = try slot.makeNow(slot.storingPlain(read(), ifGeneration: record.generation))
        return KeychainSecureVault(slot: slot, record: record)
    }

    /// Stores the credentials without biometrics, and destroys the key that protected them.
    public func downgrade() async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        let record = try await slot.make(slot.storingPlain(read(), ifGeneration: record.generation))
        return KeychainSecureVault(slot: slot, record: record)
    }

    /// Forgets the key, in every copy of this vault, and every proof that would still serve: whoever unlocks the vault is
    /// asked, whatever its policy's time of reuse. Nothing changes on disk.
    public func lock() -> LockedBiometricsSecureVault<Credentials> {
        slot.lock()
        return LockedBiometricsSecureVault(slot: slot, record: record, failure: nil)
    }

    /// Has the owner prove their presence; see ``LockedBiometricsSecureVault/reauthenticateOwner()``.
    public func reauthenticateOwner() async throws(KeystoreError) -> Bool {
        try await slot.reauthenticateOwner(record)
    }

    /// Deletes the credentials.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes the credentials.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as one of the cases: locked, once it was locked.
    public func wrap() -> Vault<Credentials> {
        session.isOpen
            ? .biometrics(self) : .locked(LockedBiometricsSecureVault(slot: slot, record: record, failure: nil))
    }

    private func checkOpen(_ operation: String) throws(KeystoreError) {
        guard session.isOpen else { throw slot.wrongState(operation, "locked") }
    }
}
