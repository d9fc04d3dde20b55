internal import FoundationEssentials
internal import GRDB

/// A condition on the attributes of records. An index answers it, without the hardware.
package indirect enum RecordQuery: Hashable, Sendable {
    case all
    case id(RecordID)
    /// The attribute has this value.
    case attribute(String, is: String)
    /// The record has the attribute, with any value.
    case hasAttribute(String)
    case not(RecordQuery)
    case and(RecordQuery, RecordQuery)
    case or(RecordQuery, RecordQuery)

    /// Whether a record satisfies the condition.
    package func matches(_ record: Record) -> Bool {
        switch self {
        case .all: true
        case .id(let id): record.id == id
        case .attribute(let name, let value): record.attributes[name] == value
        case .hasAttribute(let name): record.attributes[name] != nil
        case .not(let query): !query.matches(record)
        case .and(let left, let right): left.matches(record) && right.matches(record)
        case .or(let left, let right): left.matches(record) || right.matches(record)
        }
    }

    /// Finds the records of a kind that match, oldest first. Reports rows that cannot be decoded,
    /// and finds all others.
    func fetch(_ database: Database, container: String, kind: String) throws -> RecordMatches {
        let ids = try RecordSearch(database: database, container: container, kind: kind).ids(self)
        // CROSS JOIN: SQLite must read the index first, then each record by its name.
        let rows = try Row.fetchCursor(
            database,
            sql: """
                SELECT record.* FROM (\(ids.sql)) AS hit CROSS JOIN record
                WHERE record.container = ? AND record.id = hit.id AND +record.kind = ?
                ORDER BY record.createdAt, record.rowid
                """,
            arguments: ids.arguments + [container, kind])
        var matches = RecordMatches()
        while let row = try rows.next() {
            guard let record = matches.record(of: try RecordRow(row)), self.matches(record) else {
                continue
            }
            matches.records.append(record)
        }
        return matches
    }
}

/// The result of a search.
package struct RecordMatches: Sendable {
    package var records: [Record] = []
    /// One error for each row that could not be decoded.
    package var unreadable: [CommonError] = []

    /// Decodes the row; adds an error and returns nil if it cannot be decoded.
    mutating func record(of row: RecordRow) -> Record? {
        do {
            return try row.record()
        } catch {
            unreadable.append(CommonError(storing: error))
            return nil
        }
    }
}

extension RecordContainer {
    /// Finds the records of a kind that match, oldest first, unverified, on the caller's own thread.
    /// Does not use the hardware. Reads only matches.
    package func findNow(_ kind: String, where query: RecordQuery) throws(CommonError)
        -> RecordMatches
    {
        try store.readNow("search the records") { database in
            try query.fetch(database, container: name, kind: kind)
        }
    }

    /// The number of records in memory at once during a scan.
    private static let pageSize = 256

    /// Finds the records of a kind that `isWanted`, oldest first, unverified. Reads every record of
    /// the kind, and keeps only the wanted ones.
    ///
    /// It reads page by page and holds nothing of the store while `isWanted` runs, so `isWanted`
    /// may use the store. The result may or may not include records that are stored, changed or
    /// deleted during the scan; all others appear once.
    package func scanNow(_ kind: String, _ isWanted: (Record) throws -> Bool) throws
        -> RecordMatches
    {
        var matches = RecordMatches()
        var rowID: Int64 = 0
        while true {
            let page = try store.readNow("search the records") { database in
                try RecordRow.fetchPage(
                    database, container: name, kind: kind, after: rowID, limit: Self.pageSize)
            }
            for row in page.rows {
                guard let record = matches.record(of: row), try isWanted(record) else { continue }
                matches.records.append(record)
            }
            guard page.rows.count == Self.pageSize else { return matches }
            rowID = page.end
        }
    }

    /// Whether there is a record of the kind. Does not use the hardware.
    package func hasAny(_ kind: String) throws(CommonError) -> Bool {
        try store.readNow("read the records") { database in
            try RecordRow.exists(database, container: name, kind: kind)
        }
    }

    /// The ids of all records of a kind, oldest first. Does not use the hardware.
    package func idsNow(_ kind: String) throws(CommonError) -> [RecordID] {
        try store.readNow("list the records") { database in
            try RecordRow.fetchIDs(database, container: name, kind: kind).map(
                RecordID.init(rawValue:))
        }
    }
}

/// Converts a ``RecordQuery`` into SQL that finds the ids of all matching records, and possibly of
/// others: the caller checks each record.
struct RecordSearch {
    /// With fewer candidates than this, checking each record is faster than another index lookup.
    private static let few = 256

    let database: Database
    let container: String
    let kind: String

    /// One SELECT with the column `id`.
    struct IDs {
        let sql: String
        let arguments: StatementArguments
    }

    func ids(_ query: RecordQuery) throws -> IDs {
        switch query {
        case .all:
            IDs(
                sql: "SELECT id FROM record WHERE container = ? AND kind = ?",
                arguments: [container, kind])
        case .id(let id): IDs(sql: "SELECT ? AS id", arguments: [id.rawValue])
        case .attribute(let name, let value):
            IDs(
                sql:
                    "SELECT id FROM recordAttribute WHERE container = ? AND name = ? AND value = ?",
                arguments: [container, name, value])
        case .hasAttribute(let name):
            IDs(
                sql: "SELECT DISTINCT id FROM recordAttribute WHERE container = ? AND name = ?",
                arguments: [container, name])
        case .not(let query): Self.join(try ids(.all), try exactIDs(query), by: "EXCEPT")
        case .or(let left, let right): Self.join(try ids(left), try ids(right), by: "UNION")
        case .and(let left, let right): try both(ids(left), ids(right))
        }
    }

    /// The ids that both find, or those of one side if they are few.
    private func both(_ left: IDs, _ right: IDs) throws -> IDs {
        if try isSmall(left) { return left }
        if try isSmall(right) { return right }
        return Self.join(left, right, by: "INTERSECT")
    }

    /// The exact ids of the matching records: `not` must not exclude too many.
    private func exactIDs(_ query: RecordQuery) throws -> IDs {
        switch query {
        case .and(let left, let right):
            Self.join(try exactIDs(left), try exactIDs(right), by: "INTERSECT")
        case .or(let left, let right):
            Self.join(try exactIDs(left), try exactIDs(right), by: "UNION")
        case .all, .id, .attribute, .hasAttribute, .not: try ids(query)
        }
    }

    private func isSmall(_ ids: IDs) throws -> Bool {
        let count = try Int.fetchOne(
            database, sql: "SELECT count(*) FROM (\(ids.sql) LIMIT \(Self.few))",
            arguments: ids.arguments)
        return count ?? 0 < Self.few
    }

    private static func join(_ left: IDs, _ right: IDs, by operation: String) -> IDs {
        IDs(
            sql: "SELECT id FROM (\(left.sql)) \(operation) SELECT id FROM (\(right.sql))",
            arguments: left.arguments + right.arguments)
    }
}

/// The entries of one record in the index of attributes, which answers a ``RecordQuery``.
///
/// The index only finds candidates. It is not authenticated, so the caller checks each record
/// itself.
struct AttributeIndex {
    let container: String
    let id: String

    /// Replaces the record's old attributes by the new ones; each as the row's text.
    func replace(_ database: Database, _ old: String?, with new: String?) throws {
        let (old, new) = (Self.entries(old), Self.entries(new))
        for (name, value) in old where new[name] != value {
            try database.execute(
                sql:
                    "DELETE FROM recordAttribute WHERE container = ? AND name = ? AND value = ? AND id = ?",
                arguments: [container, name, value, id])
        }
        for (name, value) in new where old[name] != value {
            try database.execute(
                sql:
                    "INSERT OR IGNORE INTO recordAttribute (container, name, value, id) VALUES (?, ?, ?, ?)",
                arguments: [container, name, value, id])
        }
    }

    /// Attributes that cannot be decoded are not indexed.
    private static func entries(_ text: String?) -> [String: String] {
        guard let text, text != "{}" else { return [:] }
        return (try? JSONDecoder().decode([String: String].self, from: Data(text.utf8))) ?? [:]
    }
}
