internal import FoundationEssentials
internal import GRDB

/// A class key, or what authorizes a hardware key, that the hardware has to take back: since its row was deleted, or since
/// it may never have been stored. It stands here until the hardware has done so, whatever crashes meanwhile.
struct RevocationRow {
    /// The class's name, or the key's: ``name(of:)``.
    let name: String
    /// Whether it is certain. Else it is so once nobody announces it any more.
    let isDue: Bool
    /// ``sealed``, in JSON.
    private let bytes: Data

    /// What the hardware is to take back.
    ///
    /// - Throws: ``KeystoreError`` with code `damaged` where it can't be read. The row stays: other rows are none the worse.
    var sealed: SealedSecret {
        get throws(KeystoreError) {
            do {
                return try JSONDecoder().decode(SealedSecret.self, from: bytes)
            } catch {
                throw .damaged("take a key back", "what is noted of ‘\(name)’ can't be read")
            }
        }
    }

    /// The name under which a key is noted. No facade's class has such a name.
    static func name(of key: KeyID) -> String { "key.\(key)" }

    /// Notes what is about to be made: unless it is stored, it is to be taken back. What was noted under the name before
    /// was not made.
    static func announce(_ sealed: SealedSecret, of name: String, container: String, _ database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO revocation (container, name, sealed, isDue) VALUES (?, ?, ?, FALSE)",
            arguments: [container, name, JSONEncoder().encode(sealed)])
    }

    /// Forgets what was announced, and is stored in the same transaction.
    ///
    /// - Throws: ``KeystoreError`` with code `conflict` when somebody else is taking it back meanwhile.
    static func withdraw(_ name: String, container: String, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM revocation WHERE container = ? AND name = ? AND NOT isDue", arguments: [container, name])
        guard database.changesCount == 1 else {
            throw KeystoreError.conflict(
                "store the records", "another process gave up meanwhile what was made for them")
        }
    }

    /// Notes the class keys of a container whose names begin so, as many as can be taken back.
    static func drop(_ rows: [ClassRow], _ database: Database) throws {
        for row in rows where row.sealed.isRevocable {
            try insertDue(row.sealed, named: row.name, container: row.container, database)
        }
    }

    /// Notes what authorizes a key that is in no row any more.
    static func drop(_ key: HardwareKey, container: String, _ database: Database) throws {
        guard let authorization = key.authorization else { return }
        try insertDue(authorization, named: name(of: key.id), container: container, database)
    }

    private static func insertDue(
        _ sealed: SealedSecret, named name: String, container: String, _ database: Database
    ) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO revocation (container, name, sealed, isDue) VALUES (?, ?, ?, TRUE)",
            arguments: [container, name, JSONEncoder().encode(sealed)])
    }

    static func exists(container: String, _ database: Database) throws -> Bool {
        try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM revocation WHERE container = ?)", arguments: [container])
            ?? false
    }

    static func fetchAll(container: String, _ database: Database) throws -> [RevocationRow] {
        try Row.fetchAll(
            database, sql: "SELECT name, sealed, isDue FROM revocation WHERE container = ? ORDER BY name",
            arguments: [container]
        ).map(RevocationRow.init)
    }

    /// Sees to it that what was noted can't be stored any more.
    ///
    /// - Returns: nil where it is not noted any more.
    static func claim(_ name: String, container: String, _ database: Database) throws -> RevocationRow? {
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
            sql: "DELETE FROM revocation WHERE container = ? AND name = ?", arguments: [container, name])
    }

    private init(_ row: Row) throws {
        name = try row.decode(forColumn: "name")
        isDue = try row.decode(forColumn: "isDue")
        bytes = try row.decode(forColumn: "sealed")
    }
}
