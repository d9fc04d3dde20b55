internal import FoundationEssentials
internal import GRDB

/// What a transaction does to keys that the hardware can take back: one that gets its first record was announced before,
/// and one that loses its last is to be taken back.
struct RevocableKeyChanges {
    private let container: String
    /// The stored form of the container's keys, each once.
    private let before: Set<String>

    /// Looks at the container before the changes are made.
    init(container: String, _ database: Database) throws {
        self.container = container
        before = try RecordRow.fetchRevocableKeys(database, container: container)
    }

    /// Call it after the changes were made.
    ///
    /// - Throws: ``KeystoreError`` with code `conflict` for a new key that was not announced, or was taken back meanwhile.
    func note(_ database: Database) throws {
        let after = try RecordRow.fetchRevocableKeys(database, container: container)
        guard after != before else { return }
        let (gone, new) = (Self.keys(before.subtracting(after)), Self.keys(after.subtracting(before)))
        for key in new where !gone.contains(where: { $0.authorization == key.authorization }) {
            try RevocationRow.withdraw(RevocationRow.name(of: key.id), container: container, database)
        }
        for key in gone where !new.contains(where: { $0.authorization == key.authorization }) {
            try RevocationRow.drop(key, container: container, database)
        }
    }

    /// What can't be read names nothing that could be taken back.
    private static func keys(_ stored: Set<String>) -> [HardwareKey] {
        stored.compactMap { try? JSONDecoder().decode(HardwareKey.self, from: Data($0.utf8)) }.filter(\.isRevocable)
    }
}
