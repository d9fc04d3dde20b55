internal import GRDB

/// Which records are wanted, by their attributes. It is answered from an index, without the hardware.
package indirect enum RecordQuery: Hashable, Sendable {
    case all
    case id(RecordID)
    /// The attribute has this value.
    case attribute(String, is: String)
    /// The record has the attribute, with whatever value.
    case hasAttribute(String)
    case not(RecordQuery)
    case and(RecordQuery, RecordQuery)
    case or(RecordQuery, RecordQuery)

    /// Whether a record is one of those that are wanted.
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

    /// The records of a kind that match, oldest first. Rows that can't be read are told of, and hide no others.
    func fetch(_ database: Database, container: String, kind: String) throws -> RecordMatches {
        let ids = try RecordSearch(database: database, container: container, kind: kind).ids(self)
        // The index is asked first and the record by its name, whatever SQLite thinks of that.
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
            guard let record = matches.record(of: try RecordRow(row)), self.matches(record) else { continue }
            matches.records.append(record)
        }
        return matches
    }
}
