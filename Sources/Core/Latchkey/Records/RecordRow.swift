internal import Crypto
internal import FoundationEssentials
internal import GRDB

/// A record as it is stored: the metadata's exact text, the sealed payload, and a MAC over all of
/// it.
struct RecordRow {
    var container: String
    var id: String
    var kind: String
    var className: String
    var policy: String
    var attributes: String
    var hardwareKey: String?
    var payload: Data?
    var generation: Int
    var createdAt: Int
    var updatedAt: Int
    var mac: Data

    /// Whether the row claims that it needs no MAC.
    var isSelfAuthenticated: Bool { ProtectionClass.isSelfAuthenticated(className) }

    /// Everything except the payload, each field preceded by its length, so that different rows
    /// give different bytes. It is the payload's associated data. The MAC covers it and the
    /// payload's digest.
    var header: Data {
        var bytes = Data("latchkey record v1".utf8)
        for field in [container, id, kind, className, policy, attributes] {
            bytes.append(field: Data(field.utf8))
        }
        bytes.append(hardwareKey == nil ? 0 : 1)
        bytes.append(field: Data((hardwareKey ?? "").utf8))
        for number in [generation, createdAt, updatedAt] { bytes.append(number) }
        return bytes
    }

    /// The bytes that the MAC covers: the header and the payload's digest.
    var authenticatedBytes: Data { authenticatedBytes(header: header) }

    /// - Parameter header: The row's ``header``, computed before.
    func authenticatedBytes(header: Data) -> Data {
        var bytes = header
        bytes.append(payload == nil ? 0 : 1)
        bytes.append(contentsOf: SHA256.hash(data: payload ?? Data()))
        return bytes
    }
}

extension RecordRow {
    init(_ record: Record, container: String, generation: Int, createdAt: Int?, now: Date) throws {
        self.container = container
        id = record.id.rawValue
        kind = record.kind
        className = record.protection.name
        policy = try CanonicalJSON.text(record.protection.policy)
        attributes = try CanonicalJSON.text(record.attributes)
        hardwareKey = try record.key.map { try CanonicalJSON.text($0) }
        self.generation = generation
        updatedAt = Int(now.timeIntervalSince1970)
        self.createdAt = createdAt ?? updatedAt
        mac = Data()
    }

    /// Decodes the metadata; verifies nothing.
    func record() throws -> Record {
        do {
            let record = Record(
                id: RecordID(rawValue: id), kind: kind,
                protection: ProtectionClass(
                    name: className, policy: try CanonicalJSON.decode(from: policy)),
                attributes: try CanonicalJSON.decode(from: attributes),
                key: try hardwareKey.map { try CanonicalJSON.decode(from: $0) },
                generation: generation,
                createdAt: Date(timeIntervalSince1970: TimeInterval(createdAt)),
                updatedAt: Date(timeIntervalSince1970: TimeInterval(updatedAt)))
            try record.checkKeyVersion()
            return record
        } catch let error as CommonError {
            throw error
        } catch {
            throw CommonError.damaged("the metadata of the record ‘\(id)’ cannot be decoded")
        }
    }
}

extension RecordRow {
    /// - Throws: For a value of a type that the strict table refuses: another program has replaced
    ///   the table.
    init(_ row: Row) throws {
        container = try row.decode(forColumn: "container")
        id = try row.decode(forColumn: "id")
        kind = try row.decode(forColumn: "kind")
        className = try row.decode(forColumn: "class")
        policy = try row.decode(forColumn: "policy")
        attributes = try row.decode(forColumn: "attributes")
        hardwareKey = try row.decode(forColumn: "hardwareKey")
        payload = try row.decode(forColumn: "payload")
        generation = try row.decode(forColumn: "generation")
        createdAt = try row.decode(forColumn: "createdAt")
        updatedAt = try row.decode(forColumn: "updatedAt")
        mac = try row.decode(forColumn: "mac")
    }

    static func fetch(_ database: Database, container: String, id: String) throws -> RecordRow? {
        let statement = try database.cachedStatement(
            sql: "SELECT * FROM record WHERE container = ? AND id = ?")
        return try Row.fetchOne(statement, arguments: [container, id]).map(RecordRow.init)
    }

    static func fetchAll(_ database: Database, container: String, kind: String) throws
        -> [RecordRow]
    {
        let statement = try database.cachedStatement(
            sql: "SELECT * FROM record WHERE container = ? AND kind = ? ORDER BY createdAt, rowid")
        return try Row.fetchAll(statement, arguments: [container, kind]).map(RecordRow.init)
    }

    static func fetchAllWithKeys(_ database: Database, container: String) throws -> [RecordRow] {
        try Row.fetchAll(
            database,
            sql:
                "SELECT * FROM record WHERE container = ? AND hardwareKey IS NOT NULL ORDER BY createdAt, rowid",
            arguments: [container]
        ).map(RecordRow.init)
    }

    /// The stored form of the container's keys that appear to be revocable, each once.
    static func fetchRevocableKeys(_ database: Database, container: String) throws -> Set<String> {
        let statement = try database.cachedStatement(
            sql: """
                SELECT hardwareKey FROM record
                WHERE container = ? AND hardwareKey IS NOT NULL
                    AND iif(json_valid(hardwareKey), json_extract(hardwareKey, '$.authorization'), NULL) IS NOT NULL
                """)
        return try String.fetchSet(statement, arguments: [container])
    }

    /// Reads at most `limit` rows after a row ID, in the order in which they were first stored.
    ///
    /// - Parameter rowID: The end of the previous page; 0 for the first.
    /// - Returns: The rows, and the end of this page.
    static func fetchPage(
        _ database: Database, container: String, kind: String, after rowID: Int64, limit: Int
    ) throws -> (rows: [RecordRow], end: Int64) {
        let rows = try Row.fetchAll(
            database,
            sql: """
                SELECT rowid AS position, * FROM record WHERE container = ? AND kind = ? AND rowid > ?
                ORDER BY rowid LIMIT ?
                """,
            arguments: [container, kind, rowID, limit])
        return (try rows.map(RecordRow.init), rows.last?["position"] ?? rowID)
    }

    static func fetchIDs(_ database: Database, container: String, kind: String) throws -> [String] {
        try String.fetchAll(
            database,
            sql: "SELECT id FROM record WHERE container = ? AND kind = ? ORDER BY createdAt, rowid",
            arguments: [container, kind])
    }

    static func exists(_ database: Database, container: String, kind: String) throws -> Bool {
        try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM record WHERE container = ? AND kind = ?)",
            arguments: [container, kind]) ?? false
    }

    static func exists(_ database: Database, container: String, class name: String) throws -> Bool {
        try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM record WHERE container = ? AND class = ?)",
            arguments: [container, name]) ?? false
    }

    static func exists(_ database: Database, container: String, id: String, class name: String)
        throws -> Bool
    {
        try Bool.fetchOne(
            database,
            sql:
                "SELECT EXISTS (SELECT 1 FROM record WHERE container = ? AND id = ? AND class = ?)",
            arguments: [container, id, name]) ?? false
    }

    /// Writes the row and its index entries.
    ///
    /// - Parameter existing: The row of the same name, which it replaces.
    func save(_ database: Database, replacing existing: RecordRow?) throws {
        let statement = try database.cachedStatement(
            sql: """
                INSERT INTO record (container, id, kind, class, policy, attributes, hardwareKey, payload,
                    generation, createdAt, updatedAt, mac) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (container, id) DO UPDATE SET kind = excluded.kind, class = excluded.class,
                    policy = excluded.policy, attributes = excluded.attributes, hardwareKey = excluded.hardwareKey,
                    payload = excluded.payload, generation = excluded.generation, createdAt = excluded.createdAt,
                    updatedAt = excluded.updatedAt, mac = excluded.mac
                """)
        try statement.execute(arguments: [
            container, id, kind, className, policy, attributes, hardwareKey, payload, generation,
            createdAt, updatedAt,
            mac,
        ])
        guard existing?.attributes != attributes else { return }
        try AttributeIndex(container: container, id: id).replace(
            database, existing?.attributes, with: attributes)
    }

    func delete(_ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM record WHERE container = ? AND id = ?", arguments: [container, id])
        try AttributeIndex(container: container, id: id).replace(database, attributes, with: nil)
    }
}

extension Data {
    fileprivate mutating func append(field: Data) {
        append(field.count)
        append(field)
    }

    fileprivate mutating func append(_ number: Int) {
        Swift.withUnsafeBytes(of: Int64(number).bigEndian) { append(contentsOf: $0) }
    }
}
