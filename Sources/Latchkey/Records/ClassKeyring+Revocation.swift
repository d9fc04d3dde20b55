internal import GRDB

/// What the hardware can take back.
extension ClassKeyring {
    /// Seals under the class's policy, and notes before that it is to be revoked unless the class is stored.
    ///
    /// - Parameter isRequired: Whether to fail where the hardware can't revoke such a class. Else it seals it without
    ///   revocation, and ``SealedSecret/isRevocable`` says so.
    /// - Returns: What was sealed, and that it was announced, where that matters.
    func sealRevocably(
        _ secret: SecretBytes, _ protection: ProtectionClass, isRequired: Bool, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> (sealed: SealedSecret, announcement: Announcement?) {
        let (container, store, name) = (container, store, protection.name)
        let consent = ChosenPIN(presence)
        guard let announcement = try Announcement(of: name, container: container, in: store, "protect the records")
        else { throw .conflict("protect the records", "another program makes the class ‘\(name)’") }
        do throws(KeystoreError) {
            let sealed = try await keystore.sealRevocably(
                secret, policy: protection.policy, for: prompt, authorizedBy: consent
            ) { (announced) async throws(KeystoreError) in
                try await store.write("note a new class key") { database in
                    try RevocationRow.announce(announced, of: name, container: container, database)
                }
            }
            return (sealed, announcement)
        } catch {
            guard error.code == .unsupported, !isRequired else { throw error }
            return (try await seal(secret, protection, prompt, consent), nil)
        }
    }

    /// One after the other, each forgotten when it is done, so that a crash leaves no more than is left to do.
    func finishRevocations() async throws(KeystoreError) {
        let (container, operation) = (container, "take keys back")
        let noted = try await store.read(operation) { database in
            try RevocationRow.fetchAll(container: container, database)
        }
        var failure: KeystoreError?
        for row in noted {
            do throws(KeystoreError) {
                guard let due = try await claim(row, operation) else { continue }
                try await keystore.revoke(due.sealed)
                try await store.write(operation) { database in
                    try RevocationRow.delete(due.name, container: container, database)
                }
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Whether anything is noted, on the caller's own thread.
    func hasRevocationsNow() throws(KeystoreError) -> Bool {
        try store.readNow("take keys back") { database in
            try RevocationRow.exists(container: container, database)
        }
    }

    /// - Returns: nil for what somebody is making now, or has stored meanwhile.
    private func claim(_ row: RevocationRow, _ operation: String) async throws(KeystoreError) -> RevocationRow? {
        guard !row.isDue else { return row }
        let container = container
        guard let leftover = try Announcement(of: row.name, container: container, in: store, operation) else {
            return nil
        }
        defer { withExtendedLifetime(leftover) {} }
        return try await store.write(operation) { database in
            try RevocationRow.claim(row.name, container: container, database)
        }
    }
}
