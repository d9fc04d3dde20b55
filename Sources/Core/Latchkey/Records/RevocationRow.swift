internal import FoundationEssentials
internal import GRDB

/// A record key, or the authorization of a hardware key, that must be revoked because its row was
/// deleted, or may have to be because it was perhaps never stored. The row stays until the hardware
/// has revoked the value, also across crashes.
struct RevocationRow {
    /// The class's name, or the key's: ``name(of:)``.
    let name: String
    /// Whether the revocation is certain. If not, it becomes certain when its reservation has
    /// ended.
    let isDue: Bool
    /// ``sealed``, in JSON.
    private let bytes: Data

    /// The value to revoke.
    ///
    /// - Throws: ``CommonError`` with code `damaged` if it cannot be decoded. The row stays, and
    ///   others are not affected.
    var sealed: SealedSecret {
        get throws(CommonError) {
            do {
                return try JSONDecoder().decode(SealedSecret.self, from: bytes)
            } catch {
                throw .damaged("the recorded value of ‘\(name)’ cannot be decoded")
            }
        }
    }

    /// The name under which a key is recorded. No facade's class has such a name.
    static func name(of key: KeyID) -> String { "key.\(key)" }

    /// Records a value for revocation. The row replaces an earlier row of the same name, if that is
    /// not due: its value was not created.
    ///
    /// - Parameter isDue: `false` for a value that is about to be created and must be revoked
    ///   unless it is stored.
    /// - Throws: ``CommonError`` with code `conflict` if another value of this name is due.
    static func insert(
        _ sealed: SealedSecret, named name: String, isDue: Bool, container: String,
        _ database: Database
    ) throws {
        try database.execute(
            sql: """
                INSERT INTO revocation (container, name, sealed, isDue) VALUES (?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET sealed = excluded.sealed, isDue = excluded.isDue
                WHERE NOT revocation.isDue
                """,
            arguments: [container, name, JSONEncoder().encode(sealed), isDue])
        guard database.changesCount == 1 else {
            throw CommonError.conflict(
                "an earlier key of this name is not yet revoked",
                recovery: "Finish the pending revocations, then try again.")
        }
    }

    /// Deletes the row of a value that is stored in the same transaction.
    ///
    /// - Throws: ``CommonError`` with code `conflict` if another program is revoking it.
    static func withdraw(_ name: String, container: String, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM revocation WHERE container = ? AND name = ? AND NOT isDue",
            arguments: [container, name])
        guard database.changesCount == 1 else {
            throw CommonError.conflict(
                "another process revoked the key of the records in the meantime")
        }
    }

    static func exists(container: String, _ database: Database) throws -> Bool {
        try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM revocation WHERE container = ?)",
            arguments: [container])
            ?? false
    }

    static func fetchAll(container: String, _ database: Database) throws -> [RevocationRow] {
        try Row.fetchAll(
            database,
            sql: "SELECT name, sealed, isDue FROM revocation WHERE container = ? ORDER BY name",
            arguments: [container]
        ).map(RevocationRow.init)
    }

    /// Makes the revocation certain, so that the value can no longer be stored.
    ///
    /// - Returns: nil if the value is no longer recorded.
    static func claim(_ name: String, container: String, _ database: Database) throws
        -> RevocationRow?
    {
        try Row.fetchOne(
            database,
            sql: """
                UPDATE revocation SET isDue = TRUE WHERE container = ? AND name = ? RETURNING name, sealed, isDue
                """,
            arguments: [container, name]
        ).map(RevocationRow.init)
    }

    static func delete(_ name: String, container: String, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM revocation WHERE container = ? AND name = ?",
            arguments: [container, name])
    }

    /// Deletes the row of a key that the hardware has revoked. The row of another key with the same ID
    /// stays.
    static func delete(_ key: HardwareKey, container: String, _ database: Database) throws {
        let name = name(of: key.id)
        let row = try Row.fetchOne(
            database,
            sql: "SELECT name, sealed, isDue FROM revocation WHERE container = ? AND name = ?",
            arguments: [container, name]
        ).map(RevocationRow.init)
        guard let row, (try? row.sealed) == key.authorization else { return }
        try delete(name, container: container, database)
    }

    private init(_ row: Row) throws {
        name = try row.decode(forColumn: "name")
        isDue = try row.decode(forColumn: "isDue")
        bytes = try row.decode(forColumn: "sealed")
    }
}

/// The effect of a transaction on revocable keys: a key that gets its first record was reserved
/// before, and a key that loses its last record is recorded for revocation.
struct RevocableKeyChanges {
    private let container: String
    /// The stored form of the container's keys, each once.
    private let before: Set<String>

    /// Reads the container's keys. Call it before the changes.
    init(container: String, _ database: Database) throws {
        self.container = container
        before = try RecordRow.fetchRevocableKeys(database, container: container)
    }

    /// Records the effect of the changes. Call it after them.
    ///
    /// - Throws: ``CommonError`` with code `conflict` for a new key that was not recorded before,
    ///   or was revoked in the meantime.
    func record(_ database: Database) throws {
        let after = try RecordRow.fetchRevocableKeys(database, container: container)
        guard after != before else { return }
        let (gone, new) = (
            Self.keys(before.subtracting(after)), Self.keys(after.subtracting(before))
        )
        for key in new where !gone.contains(where: { $0.authorization == key.authorization }) {
            try RevocationRow.withdraw(
                RevocationRow.name(of: key.id), container: container, database)
        }
        for key in gone where !new.contains(where: { $0.authorization == key.authorization }) {
            guard let authorization = key.authorization else { continue }
            try RevocationRow.insert(
                authorization, named: RevocationRow.name(of: key.id), isDue: true,
                container: container, database)
        }
    }

    /// Decodes keys; a key that cannot be decoded names nothing to revoke.
    private static func keys(_ stored: Set<String>) -> [HardwareKey] {
        stored.compactMap { try? JSONDecoder().decode(HardwareKey.self, from: Data($0.utf8)) }
            .filter(\.isRevocable)
    }
}

/// A reserved revocation: this program is creating a revocable value, which is recorded under a
/// name. The reservation lasts until the value is stored. A recorded value without a reservation
/// was left by a crash.
final class RevocationReservation: Sendable {
    private let lock: ContainerLock

    private init(_ lock: ContainerLock) { self.lock = lock }

    /// - Returns: nil if another task or program holds the reservation.
    convenience init?(
        of name: String, container: String, in store: RecordStore
    ) throws(CommonError) {
        let lock = try ContainerLock(on: "revocation.\(name)", of: container, in: store)
        guard lock.isAcquired() else { return nil }
        self.init(lock)
    }
}
