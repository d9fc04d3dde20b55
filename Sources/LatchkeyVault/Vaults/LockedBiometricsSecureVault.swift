public import Latchkey

/// A vault that only somebody who is present can open, and that is not open in this program.
public struct LockedBiometricsSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    /// nil when the row can't be read.
    let record: Record?
    /// Why the vault can't be unlocked, where that could be seen without the hardware: the row is damaged, the store
    /// can't be read, the key is no name. nil for an ordinary locked vault. What is stored is kept until `reset()`.
    public let failure: KeystoreError?

    /// The vault's name.
    public var key: String { slot.key }

    /// Asks whoever is present and opens the vault.
    ///
    /// - Throws: `KeystoreError`, and the vault stays locked: `cancelled`, `wrongProof`, `lockedOut`, `unavailable`,
    ///   `invalidated`, `wrongDevice`; `damaged` when what is stored is not what was stored; `conflict` when the vault is
    ///   in another state by now; ``failure``, when there is one.
    public func unlock() async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await slot.unlock(standing())
    }

    /// Has the owner prove their presence now, without unlocking the vault. No earlier proof serves, whatever the policy's
    /// time of reuse. The next ``unlock()`` within a minute accepts this proof and asks for no other.
    ///
    /// - Returns: Whether the proof was right; false when the person declined or was wrong.
    /// - Throws: `KeystoreError`; `lockedOut` when the hardware takes no proofs for now.
    public func reauthenticateOwner() async throws(KeystoreError) -> Bool {
        try await slot.reauthenticateOwner(standing())
    }

    /// Deletes what is stored, readable or not.
    ///
    /// - Throws: `KeystoreError` when anything is left.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes what is stored, readable or not.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as one of the cases.
    public func wrap() -> Vault<Credentials> { .locked(self) }

    private func standing() throws(KeystoreError) -> Record {
        guard let record else { throw failure ?? slot.changed() }
        return record
    }
}
