internal import FoundationEssentials
internal import GRDB

/// A class key that the hardware has to take back: since its class was dropped, or since it may never have been stored.
/// It stands here until the hardware has done so, whatever crashes meanwhile.
struct RevocationRow {
    let name: String
    let sealed: SealedSecret

    /// Notes a class key that is about to be made: unless its class is stored, it is to be taken back. What was noted for
    /// the class before was not made.
    static func announce(_ sealed: SealedSecret, of name: String, container: String, _ database: Database) throws {
        try database.execute(
            sql: "INSERT OR REPLACE INTO revocation (container, name, sealed, isDue) VALUES (?, ?, ?, FALSE)",
            arguments: [container, name, JSONEncoder().encode(sealed)])
    }

    /// Forgets an announced class key, whose class is stored in the same transaction.
    ///
    /// - Throws: ``KeystoreError`` with code `conflict` when somebody else is taking it back meanwhile.
    static func withdraw(_ name: String, container: String, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM revocation WHERE container = ? AND name = ? AND NOT isDue", arguments: [container, name])
        guard database.changesCount == 1 else {
            throw KeystoreError.conflict("store the records", "another process gave the new class up meanwhile")
        }
    }

    /// Notes the class keys of a container whose names begin so, as many as can be taken back.
    static func drop(_ rows: [ClassRow], _ database: Database) throws {
        for row in rows where row.sealed.isRevocable {
            try database.execute(
                sql: "INSERT OR REPLACE INTO revocation (container, name, sealed, isDue) VALUES (?, ?, ?, TRUE)",
                arguments: [row.container, row.name, JSONEncoder().encode(row.sealed)])
        }
    }

    /// Claims all of a container: none of them can be stored as a class any more.
    static func claimAll(container: String, _ database: Database) throws -> [RevocationRow] {
        try database.execute(sql: "UPDATE revocation SET isDue = TRUE WHERE container = ?", arguments: [container])
        return try Row.fetchAll(
            database, sql: "SELECT name, sealed FROM revocation WHERE container = ? ORDER BY name",
            arguments: [container]
        ).map(RevocationRow.init)
    }

    func delete(container: String, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM revocation WHERE container = ? AND name = ?", arguments: [container, name])
    }

    private init(_ row: Row) throws {
        name = try row.decode(forColumn: "name")
        do {
            sealed = try JSONDecoder().decode(SealedSecret.self, from: row.decode(Data.self, forColumn: "sealed"))
        } catch {
            throw KeystoreError.damaged("take a class key back", "the stored key of class ‘\(name)’ can't be read")
        }
    }
}
