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
        let ids = ids(container, kind)
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
            guard let record = matches.record(of: RecordRow(row)), self.matches(record) else { continue }
            matches.records.append(record)
        }
        return matches
    }

    /// The ids of what matches, as one SELECT with one column.
    private func ids(_ container: String, _ kind: String) -> (sql: String, arguments: StatementArguments) {
        switch self {
        case .all: ("SELECT id FROM record WHERE container = ? AND kind = ?", [container, kind])
        case .id(let id): ("SELECT ? AS id", [id.rawValue])
        case .attribute(let name, let value):
            ("SELECT id FROM recordAttribute WHERE container = ? AND name = ? AND value = ?", [container, name, value])
        case .hasAttribute(let name):
            ("SELECT DISTINCT id FROM recordAttribute WHERE container = ? AND name = ?", [container, name])
        case .not(let query): Self.all.joined("EXCEPT", query, container, kind)
        case .and(let left, let right): left.joined("INTERSECT", right, container, kind)
        case .or(let left, let right): left.joined("UNION", right, container, kind)
        }
    }

    private func joined(
        _ operation: String, _ other: RecordQuery, _ container: String, _ kind: String
    ) -> (sql: String, arguments: StatementArguments) {
        let (left, right) = (ids(container, kind), other.ids(container, kind))
        return (
            "SELECT id FROM (\(left.sql)) \(operation) SELECT id FROM (\(right.sql))", left.arguments + right.arguments
        )
    }
}
