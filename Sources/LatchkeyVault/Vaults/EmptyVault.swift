public import Latchkey

/// A vault in which nothing is stored.
public struct EmptyVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>

    /// The vault's name.
    public var key: String { slot.key }

    /// Stores the credentials without biometrics: bound to this machine's hardware, readable without anybody present.
    ///
    /// - Throws: `KeystoreError`; `conflict` when something was stored meanwhile, `wrongState` when the space is not
    ///   open.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func storeToKeychain(credentials: Credentials) throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        let record = try slot.makeNow(slot.storingPlain(credentials, ifGeneration: 0))
        return KeychainSecureVault(slot: slot, record: record)
    }

    /// Stores the credentials without biometrics, and opens the space if it isn't.
    public func storeToKeychain(
        credentials: Credentials
    ) async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        let record = try await slot.make(slot.storingPlain(credentials, ifGeneration: 0))
        return KeychainSecureVault(slot: slot, record: record)
    }

    /// Stores the credentials so that only somebody who is present can read them. Whoever is present is asked once. The
    /// vault that comes back is unlocked.
    ///
    /// - Throws: `KeystoreError`; `cancelled` when the person declines, `unsupported` when the hardware can't enforce
    ///   the space's policy, `conflict` when something was stored meanwhile. Nothing is then stored.
    public func storeToBiometrics(
        credentials: Credentials
    ) async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        guard case .empty = try slot.presentState() else { throw slot.changed() }
        let prepared = try await slot.newClass("store")
        let record = try await slot.make(slot.storingGated(credentials, in: prepared, ifGeneration: 0))
        return BiometricsSecureVault(slot: slot, record: record, session: prepared.session)
    }

    /// Deletes what was stored meanwhile.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes what was stored meanwhile.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as one of the cases.
    public func wrap() -> Vault<Credentials> {
        slot.space?.isUserVerificationAvailable ?? false ? .emptyWithBiometrics(self) : .empty(self)
    }
}
