public import Latchkey

/// A vault that requires user verification and is open in this program.
///
/// All copies share one session. ``lock()`` on any of them ends it for all of them for good:
/// unlocking the vault again creates another.
public struct BiometricsSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    let stored: StoredRecord
    let session: ClassSession
    /// The credentials at the time when this vault was unlocked or created. ``lock()`` cannot erase
    /// them from a value that the app keeps, so replace this value with the locked vault.
    /// ``read()`` throws after a lock.
    public let credentials: Credentials

    /// The vault's key.
    public var key: String { slot.key }

    /// Reads the stored credentials again. Does not prompt and uses no hardware.
    ///
    /// - Throws: `KeystoreError`; `wrongState` after the vault was locked, `conflict` if its
    ///   protection was changed or it was reset, `damaged` if another program changed the stored
    ///   value, `invalidInput` if the program stored a value of another type.
    public func read() throws(KeystoreError) -> Credentials {
        try checkOpen()
        return try slot.read(in: session)
    }

    /// Replaces the credentials. The vault is open, so this call does not prompt. Can be repeated
    /// on the same value.
    ///
    /// - Throws: `KeystoreError`; `wrongState` after the vault was locked, `conflict` if another
    ///   vault or program changed the credentials since this vault was retrieved.
    public func update(credentials: Credentials) async throws(KeystoreError)
        -> BiometricsSecureVault
    {
        try checkOpen()
        stored.record = try await slot.make(slot.updating(stored.record, to: credentials))
        return BiometricsSecureVault(
            slot: slot, stored: stored, session: session, credentials: credentials)
    }

    /// Stores the credentials without biometrics, and destroys the key that protected them. If that
    /// key is revocable it is revoked soon after: then no copy of the store opens it.
    ///
    /// - Throws: `KeystoreError`; `wrongState` after the vault was locked, `conflict`.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func downgrade() throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        try checkOpen(for: .downgrade)
        let credentials = try read()
        let plain = try slot.makeNow(
            slot.storing(credentials, ifGeneration: stored.record.generation))
        return KeychainSecureVault(
            slot: slot, stored: StoredRecord(plain), credentials: credentials)
    }

    /// Stores the credentials without biometrics, and destroys the key that protected them.
    public func downgrade() async throws(KeystoreError) -> KeychainSecureVault<Credentials> {
        try checkOpen(for: .downgrade)
        let credentials = try read()
        let plain = try await slot.make(
            slot.storing(credentials, ifGeneration: stored.record.generation))
        return KeychainSecureVault(
            slot: slot, stored: StoredRecord(plain), credentials: credentials)
    }

    /// Discards the key, in every copy of this vault, and every earlier proof: the next unlock
    /// prompts, even within the policy's reuse time. Changes nothing on disk.
    public func lock() -> LockedBiometricsSecureVault<Credentials> {
        slot.lock()
        return LockedBiometricsSecureVault(slot: slot, record: stored.record, failure: nil)
    }

    /// Verifies that the user is the owner; see
    /// ``LockedBiometricsSecureVault/reauthenticateOwner()``.
    public func reauthenticateOwner() async throws(KeystoreError) -> Bool {
        try await slot.reauthenticateOwner(stored.record)
    }

    /// Deletes the credentials.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes the credentials.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as a case of ``Vault``: locked, if it was locked.
    public func wrap() -> Vault<Credentials> {
        session.isOpen
            ? .biometrics(self)
            : .locked(LockedBiometricsSecureVault(slot: slot, record: stored.record, failure: nil))
    }

    private func checkOpen(
        for call: VaultErrorCode.Call = .read
    ) throws(KeystoreError) {
        guard session.isOpen else { throw slot.wrongState(.locked, for: call) }
    }
}

/// A vault that requires user verification and is not open in this program.
public struct LockedBiometricsSecureVault<Credentials: Codable & Sendable>: Sendable {
    let slot: VaultSlot<Credentials>
    /// nil if the row cannot be decoded.
    let record: Record?
    /// The reason why the vault cannot be unlocked now: a damaged row, a value of another type, an
    /// unreadable store, an invalid key, or a space that is not open. nil for an ordinary locked
    /// vault. The stored value is kept until `reset()`.
    public let failure: KeystoreError?

    /// The vault's key.
    public var key: String { slot.key }

    /// Verifies the user and opens the vault.
    ///
    /// - Throws: `KeystoreError`, and the vault stays locked: `cancelled`, `wrongProof`,
    ///   `lockedOut`, `unavailable`, `invalidated`, `wrongDevice`; `damaged` if another program
    ///   changed the stored value; `invalidInput` if the value is intact and has another type;
    ///   `conflict` if the vault has changed its state; ``failure``, if there is one.
    public func unlock() async throws(KeystoreError) -> BiometricsSecureVault<Credentials> {
        try await slot.unlock(existingRecord())
    }

    /// Verifies that the user is the owner, without unlocking the vault. Accepts no earlier proof,
    /// even within the policy's reuse time. The next ``unlock()`` within a minute accepts this
    /// proof and does not prompt.
    ///
    /// Call it when ``unlock()`` throws `lockedOut`. It prompts for a proof that is not locked out,
    /// even if the presence authority prefers the locked one, and lifts the lockout if the hardware
    /// can:
    /// - After fingers that did not match, it prompts for the PIN.
    /// - After wrong PINs, it prompts for a fingerprint if the presence broker can read one, and
    ///   either the broker counts the wrong PINs or the policy accepts a finger.
    /// - After wrong PINs on a token, it prompts for the unblocking code (PUK) or the security
    ///   officer's PIN, and then for a new PIN.
    /// - After wrong PINs on a TPM with a lockout password, it prompts for that password.
    ///
    /// - Returns: Whether the proof was right; false if the user declined, the proof was wrong, or
    ///   the lockout remains. If the lockout remains, the presence authority receives
    ///   `PresenceNotice.lockedOut` with the end of the lockout, and the next ``unlock()`` throws
    ///   `lockedOut` with the same end.
    /// - Throws: `KeystoreError`: `unavailable`, `invalidated`, `wrongDevice`, `damaged`,
    ///   `conflict`; ``failure``, if there is one. Never `lockedOut`.
    public func reauthenticateOwner() async throws(KeystoreError) -> Bool {
        try await slot.reauthenticateOwner(existingRecord())
    }

    /// Deletes the stored value, readable or not.
    ///
    /// - Throws: `KeystoreError` if anything remains.
    @available(*, noasync, message: "await the asynchronous function of the same name")
    public func reset() throws(KeystoreError) -> Vault<Credentials> { try slot.resetNow() }

    /// Deletes the stored value, readable or not.
    public func reset() async throws(KeystoreError) -> Vault<Credentials> { try await slot.reset() }

    /// This vault as a case of ``Vault``.
    public func wrap() -> Vault<Credentials> { .locked(self) }

    private func existingRecord() throws(KeystoreError) -> Record {
        guard let record else { throw failure ?? slot.changed() }
        return record
    }
}
