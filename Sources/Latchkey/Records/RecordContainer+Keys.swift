/// Keys of the container's keystore, whose rows and what the hardware holds of them come and go together.
extension RecordContainer {
    /// Makes a key that is not stored yet: put it into a record with ``apply(_:for:authorizedBy:)``, or ``discard(_:)`` it.
    ///
    /// What the hardware shall be able to take back is noted before it is made. A crash before the key is stored leaves it
    /// to ``finishRevocations()``; so does the deletion of the last record that has the key, in the same transaction.
    ///
    /// - Parameter revocably: Whether the hardware shall be able to revoke the key. ``HardwareKey/isRevocable`` and
    ///   ``PreparedKey/revocabilityRefusal`` of the result say whether it can.
    /// - Throws: ``KeystoreError``, as ``Keystore/createKey(_:authorizedBy:)``; `unsupported` where the hardware refuses
    ///   and ``Revocability/required`` was asked for.
    public func createKey(
        _ request: KeyRequest, revocably: Revocability, authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> PreparedKey {
        guard revocably != .never else {
            return PreparedKey(key: try await keystore.createKey(request, authorizedBy: presence))
        }
        let (name, store, note) = (name, store, RevocationRow.name(of: request.id))
        let consent = ChosenPIN(presence)
        guard let announcement = try Announcement(of: note, container: name, in: store, "create a key") else {
            throw .conflict("create a key", "another program makes one of the same name")
        }
        do throws(KeystoreError) {
            let key = try await keystore.createRevocableKey(request, authorizedBy: consent) {
                (announced) async throws(KeystoreError) in
                try await store.write("note a new key") { database in
                    try RevocationRow.announce(announced, of: note, container: name, database)
                }
            }
            return PreparedKey(key: key, announcement: announcement)
        } catch {
            guard error.code == .unsupported, revocably == .preferred else { throw error }
            return PreparedKey(
                key: try await keystore.createKey(request, authorizedBy: consent), revocabilityRefusal: error)
        }
    }

    /// Has the hardware give up a key that is in no record, or in none any more. Nobody is asked.
    ///
    /// - Throws: As ``Keystore/delete(_:)``. What the hardware can take back stays noted then, for
    ///   ``finishRevocations()``.
    public func discard(_ key: HardwareKey) async throws(KeystoreError) {
        try await keystore.delete(key)
        guard key.isRevocable else { return }
        let name = name
        try await store.write("forget a key") { database in
            try RevocationRow.delete(RevocationRow.name(of: key.id), container: name, database)
        }
    }
}
