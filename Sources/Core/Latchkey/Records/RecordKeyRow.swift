internal import FoundationEssentials
internal import GRDB

/// A sealed record key as it is stored. It needs no MAC: the hardware authenticates the sealed
/// blob.
struct RecordKeyRow {
    static let firstGeneration = 1

    let container: String
    let name: String
    let sealed: SealedSecret
    let generation: Int

    static func fetch(_ database: Database, container: String, name: String) throws -> RecordKeyRow?
    {
        try Row.fetchOne(
            database, sql: "SELECT * FROM classKey WHERE container = ? AND name = ?",
            arguments: [container, name]
        ).map(RecordKeyRow.init)
    }

    static func fetchAll(_ database: Database, container: String) throws -> [RecordKeyRow] {
        try Row.fetchAll(
            database, sql: "SELECT * FROM classKey WHERE container = ? ORDER BY name",
            arguments: [container]
        ).map(RecordKeyRow.init)
    }

    func insertUnlessPresent(_ database: Database) throws {
        try insert(database, or: "OR IGNORE")
    }

    /// - Throws: If there is a class of that name.
    func insert(_ database: Database) throws {
        try insert(database, or: "")
    }

    private func insert(_ database: Database, or alternative: String) throws {
        try database.execute(
            sql:
                "INSERT \(alternative) INTO classKey (container, name, sealed, generation) VALUES (?, ?, ?, ?)",
            arguments: [container, name, JSONEncoder().encode(sealed), generation])
    }

    /// Deletes the classes whose names have this prefix, and records the revocable ones for
    /// revocation.
    static func deleteAll(_ database: Database, container: String, prefix: String) throws {
        // A row that cannot be decoded names no revocable key, and is deleted too.
        let rows = try Row.fetchAll(
            database, sql: "SELECT * FROM classKey WHERE \(hasPrefix)",
            arguments: [container, prefix, prefix])
        for row in rows.compactMap({ try? RecordKeyRow($0) }) where row.sealed.isRevocable {
            try RevocationRow.insert(
                row.sealed, named: row.name, isDue: true, container: container, database)
        }
        try database.execute(
            sql: "DELETE FROM classKey WHERE \(hasPrefix)", arguments: [container, prefix, prefix])
    }

    static func exists(_ database: Database, container: String, prefix: String) throws -> Bool {
        try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM classKey WHERE \(hasPrefix))",
            arguments: [container, prefix, prefix]) ?? false
    }

    /// An SQL condition: names with a prefix, as a range for the index. Arguments: container,
    /// prefix, prefix.
    private static let hasPrefix = "container = ? AND name >= ? AND name < ? || char(0x10FFFF)"

    /// Finds a readable class that is sealed under exactly this policy by this kind of keystore,
    /// without its own PIN.
    static func first(
        _ database: Database, container: String, sealedUnder policy: AccessPolicy, backend: String
    ) throws -> RecordKeyRow? {
        let rows = try Row.fetchCursor(
            database, sql: "SELECT * FROM classKey WHERE container = ? ORDER BY name",
            arguments: [container])
        while let row = try rows.next() {
            guard let row = try? RecordKeyRow(row), row.sealed.policy == policy,
                row.sealed.backend == backend,
                !ProtectionClass.hasOwnPIN(row.name)
            else { continue }
            return row
        }
        return nil
    }

    /// Replaces the blob, unless another process has replaced it in the meantime.
    func replace(_ database: Database, with sealed: SealedSecret) throws {
        try database.execute(
            sql: """
                UPDATE classKey SET sealed = ?, generation = generation + 1
                WHERE container = ? AND name = ? AND generation = ?
                """,
            arguments: [JSONEncoder().encode(sealed), container, name, generation])
        guard database.changesCount == 1 else {
            throw CommonError.conflict("another process changed the record key in the meantime")
        }
    }
}

extension RecordKeyRow {
    init(_ row: Row) throws {
        container = try row.decode(forColumn: "container")
        name = try row.decode(forColumn: "name")
        generation = try row.decode(forColumn: "generation")
        do {
            sealed = try JSONDecoder().decode(
                SealedSecret.self, from: row.decode(Data.self, forColumn: "sealed"))
        } catch {
            throw CommonError.damaged("the stored key of class ‘\(name)’ cannot be decoded")
        }
        guard sealed.version == SealedSecret.currentVersion else {
            throw CommonError.unsupported(
                "the stored key of class ‘\(name)’ has version \(sealed.version)",
                recovery: "Install a newer Latchkey."
            )
        }
    }
}
