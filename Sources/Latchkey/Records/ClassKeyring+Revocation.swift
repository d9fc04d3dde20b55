internal import GRDB

/// Class keys that the hardware can take back.
extension ClassKeyring {
    /// Seals under the class's policy, and notes before that it is to be taken back unless the class is stored. Hardware that
    /// can't take such a class back seals it all the same; ``SealedSecret/isRevocable`` says what came of it.
    func sealRevocably(
        _ secret: SecretBytes, _ protection: ProtectionClass, _ prompt: PromptContext,
        _ presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        let (container, store) = (container, store)
        do throws(KeystoreError) {
            return try await keystore.sealRevocably(
                secret, policy: protection.policy, for: prompt, authorizedBy: presence
            ) { (announced) async throws(KeystoreError) in
                try await store.write("note a new class key") { database in
                    try RevocationRow.announce(announced, of: protection.name, container: container, database)
                }
            }
        } catch {
            guard error.code == .unsupported else { throw error }
            return try await seal(secret, protection, prompt, presence)
        }
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
