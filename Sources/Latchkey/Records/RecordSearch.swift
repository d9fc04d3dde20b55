internal import GRDB

/// Turns a ``RecordQuery`` into SQL that brings up the ids of all records that match, and perhaps of some more: each
/// record is looked at itself afterwards.
struct RecordSearch {
    /// So few candidates are looked at one by one rather than thinned out in the index.
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
        case .all: IDs(sql: "SELECT id FROM record WHERE container = ? AND kind = ?", arguments: [container, kind])
        case .id(let id): IDs(sql: "SELECT ? AS id", arguments: [id.rawValue])
        case .attribute(let name, let value):
            IDs(
                sql: "SELECT id FROM recordAttribute WHERE container = ? AND name = ? AND value = ?",
                arguments: [container, name, value])
        case .hasAttribute(let name):
            IDs(
                sql: "SELECT DISTINCT id FROM recordAttribute WHERE container = ? AND name = ?",
                arguments: [container, name])
        case .not(let query): Self.join(try ids(.all), "EXCEPT", try exactIDs(query))
        case .or(let left, let right): Self.join(try ids(left), "UNION", try ids(right))
        case .and(let left, let right): try both(ids(left), ids(right))
        }
    }

    /// What both bring up; or what one of them does, when that is little.
    private func both(_ left: IDs, _ right: IDs) throws -> IDs {
        if try isSmall(left) { return left }
        if try isSmall(right) { return right }
        return Self.join(left, "INTERSECT", right)
    }

    /// The ids of what matches and no others: what must not be taken away too much.
    private func exactIDs(_ query: RecordQuery) throws -> IDs {
        switch query {
        case .and(let left, let right): Self.join(try exactIDs(left), "INTERSECT", try exactIDs(right))
        case .or(let left, let right): Self.join(try exactIDs(left), "UNION", try exactIDs(right))
        case .all, .id, .attribute, .hasAttribute, .not: try ids(query)
        }
    }

    private func isSmall(_ ids: IDs) throws -> Bool {
        let count = try Int.fetchOne(
            database, sql: "SELECT count(*) FROM (\(ids.sql) LIMIT \(Self.few))", arguments: ids.arguments)
        return count ?? 0 < Self.few
    }

    private static func join(_ left: IDs, _ operation: String, _ right: IDs) -> IDs {
        IDs(
            sql: "SELECT id FROM (\(left.sql)) \(operation) SELECT id FROM (\(right.sql))",
            arguments: left.arguments + right.arguments)
    }
}
