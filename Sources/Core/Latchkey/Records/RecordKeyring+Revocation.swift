/// Revocable keys of protection classes.
extension RecordKeyring {
    /// Seals a class's key revocably. Before that it records the key for revocation, unless the
    /// class is then stored.
    ///
    /// - Parameter isRequired: Whether to fail if the hardware cannot revoke such a class.
    ///   Otherwise the key is sealed without revocation, and ``SealedSecret/isRevocable`` is
    ///   `false`.
    /// - Returns: The sealed key, and the reservation of its revocation if it is revocable.
    func sealRevocably(
        _ secret: SecretBytes, _ protection: ProtectionClass, isRequired: Bool,
        for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(CommonError) -> (sealed: SealedSecret, reservation: RevocationReservation?) {
        let (container, store, name) = (container, store, protection.name)
        guard let reservation = try RevocationReservation(of: name, container: container, in: store)
        else {
            throw .conflict("another program is creating the class ‘\(name)’")
        }
        do throws(CommonError) {
            let sealed = try await keystore.revoking().sealRevocably(
                secret, policy: protection.policy, for: prompt, authorizedBy: presence
            ) { (new) async throws(CommonError) in
                try await store.write("mark a new record key for revocation") { database in
                    try RevocationRow.insert(
                        new, named: name, isDue: false, container: container, database)
                }
            }
            return (sealed, reservation)
        } catch {
            guard error.code == .unsupported, !isRequired else { throw error }
            return (try await seal(secret, protection, for: prompt, authorizedBy: presence), nil)
        }
    }

    /// Revokes one key after the other and deletes each row when its key is revoked, so a crash
    /// repeats at most one.
    func finishRevocations() async throws(CommonError) {
        let container = container
        let rows = try await store.read("revoke keys") { database in
            try RevocationRow.fetchAll(container: container, database)
        }
        var failure: CommonError?
        for row in rows {
            do throws(CommonError) {
                guard let due = try await claim(row) else { continue }
                try await keystore.revoking().revoke(due.sealed)
                try await store.write("revoke keys") { database in
                    try RevocationRow.delete(due.name, container: container, database)
                }
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Whether anything is recorded for revocation. Runs on the caller's own thread.
    func hasRevocationsNow() throws(CommonError) -> Bool {
        try store.readNow("revoke keys") { database in
            try RevocationRow.exists(container: container, database)
        }
    }

    /// - Returns: nil if another program is creating the value now, or has stored it in the
    ///   meantime.
    private func claim(_ row: RevocationRow) async throws(CommonError) -> RevocationRow? {
        guard !row.isDue else { return row }
        let container = container
        guard
            let leftover = try RevocationReservation(of: row.name, container: container, in: store)
        else {
            return nil
        }
        defer { withExtendedLifetime(leftover) {} }
        return try await store.write("revoke keys") { database in
            try RevocationRow.claim(row.name, container: container, database)
        }
    }
}
