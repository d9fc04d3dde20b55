internal import GRDB

/// Class keys that the hardware can take back.
extension ClassKeyring {
    /// Whether a class is to be made so that it can be taken back.
    func isRevocable(_ isWanted: Bool) async throws(KeystoreError) -> Bool {
        guard isWanted else { return false }
        return try await keystore.capabilities().sealsRevocably
    }

    /// Seals under the class's policy, and notes that it is to be taken back unless the class is stored.
    func sealRevocably(
        _ secret: SecretBytes, _ protection: ProtectionClass, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let sealed = try await keystore.sealRevocably(
            secret, policy: protection.policy, for: prompt, authorizedBy: presence)
        let container = container
        do {
            try await store.write("note a new class key") { database in
                try RevocationRow.announce(sealed, of: protection.name, container: container, database)
            }
        } catch {
            try? await keystore.revoke(sealed)
            throw error
        }
        return sealed
    }

    /// One after the other, each forgotten when it is done, so that a crash leaves no more than is left to do.
    func finishRevocations() async throws(KeystoreError) {
        let (container, operation) = (container, "take class keys back")
        let due = try await store.write(operation) { database in
            try RevocationRow.claimAll(container: container, database)
        }
        var failure: KeystoreError?
        for row in due {
            do throws(KeystoreError) {
                try await keystore.revoke(row.sealed)
                try await store.write(operation) { database in try row.delete(container: container, database) }
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }
}
