/// Keys of the container's keystore. The row of a key and its data in the hardware are created and
/// deleted together.
extension RecordContainer {
    /// Creates a key that is not stored yet: put it into a record with
    /// ``apply(_:for:authorizedBy:)``, or ``discard(_:)`` it.
    ///
    /// A revocable key is recorded for revocation before it is created. If the program crashes
    /// before the key is stored, ``finishRevocations()`` revokes it. It also revokes a key whose
    /// last record was deleted.
    ///
    /// - Parameter revocably: Whether to create a revocable key. ``HardwareKey/isRevocable`` and
    ///   ``PreparedKey/revocabilityRefusal`` of the result say whether it is.
    /// - Throws: ``CommonError``, as ``Keystore/createKey(_:authorizedBy:)``; `unsupported` if
    ///   ``Revocability/required`` was requested and the hardware refuses; `conflict` if an earlier
    ///   key of the same ID is not yet revoked.
    public func createKey(
        _ request: KeyRequest, revocably: Revocability, authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> PreparedKey {
        do throws(CommonError) {
            try store.checkWritable()
            guard revocably != .never else {
                return PreparedKey(
                    key: try await keystore.createKey(request, authorizedBy: presence))
            }
            let (name, store, rowName) = (name, store, RevocationRow.name(of: request.id))
            let presence = PresenceSession(presence)
            guard
                let reservation = try RevocationReservation(of: rowName, container: name, in: store)
            else {
                throw .conflict("another program is creating a key of the same name")
            }
            do throws(CommonError) {
                let keystore = try keystore.revoking()
                let key = try await keystore.createRevocableKey(request, authorizedBy: presence) {
                    (new) async throws(CommonError) in
                    try await store.write("record a new key for revocation") { database in
                        try RevocationRow.insert(
                            new, named: rowName, isDue: false, container: name, database)
                    }
                }
                return PreparedKey(key: key, reservation: reservation)
            } catch {
                guard error.code == .unsupported, revocably == .preferred else { throw error }
                return PreparedKey(
                    key: try await keystore.createKey(request, authorizedBy: presence),
                    revocabilityRefusal: error)
            }
        } catch {
            throw error.during("create a key")
        }
    }

    /// Deletes a key from the hardware that is in no record. Does not prompt.
    ///
    /// - Throws: As ``Keystore/delete(_:)``. A revocable key then stays recorded for
    ///   ``finishRevocations()``.
    public func discard(_ key: HardwareKey) async throws(CommonError) {
        do throws(CommonError) {
            try await keystore.delete(key)
            guard key.isRevocable else { return }
            let name = name
            try await store.write("delete the record of a revocation") { database in
                try RevocationRow.delete(key, container: name, database)
            }
        } catch {
            throw error.during("delete a key")
        }
    }
}

/// A key that was created and is not stored yet. Keep this value until the key is stored: other
/// programs may revoke the key after that.
public struct PreparedKey: Sendable {
    /// The key.
    public let key: HardwareKey
    /// The reason why the key is not revocable, if ``Revocability/preferred`` was requested.
    public let revocabilityRefusal: CommonError?
    let reservation: RevocationReservation?

    init(
        key: HardwareKey, revocabilityRefusal: CommonError? = nil,
        reservation: RevocationReservation? = nil
    ) {
        self.key = key
        self.revocabilityRefusal = revocabilityRefusal
        self.reservation = reservation
    }
}

/// Whether a new key is revocable: after its deletion a copy of the store does not open it, and
/// after a PIN change the old PIN does not open it.
public enum Revocability: Hashable, Sendable {
    /// Revocable. Fails with `unsupported` if the hardware refuses.
    case required
    /// Revocable if possible. If the hardware refuses, the key is created without revocation, and
    /// the result says so.
    ///
    /// An attacker on the bus can forge the refusal. Use ``required`` if a copy of the store must
    /// not work.
    case preferred
    /// Not revocable.
    case never
}
