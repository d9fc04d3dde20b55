internal import GRDB

extension RecordContainer {
    /// Whether something is certain to be taken back, and was not yet: what the hardware could not do when it was dropped.
    /// Until ``finishRevocations()`` has done it, a copy of the store opens it. Uses no hardware.
    package var hasPendingRevocations: Bool {
        get async throws(KeystoreError) {
            let name = name
            return try await store.read("find what is to be taken back") { database in
                try Bool.fetchOne(
                    database, sql: "SELECT EXISTS (SELECT 1 FROM revocation WHERE container = ? AND isDue)",
                    arguments: [name]) ?? false
            }
        }
    }
}
