import Foundation
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySQLite
import LatchkeyTestSupport
import Testing

/// The article "Tables" describes the tables that the migrations create.
@Suite struct TablesTests {
    private static let migrations =
        DatabaseChallengeStore.migrations + DatabaseDeviceRegistry.migrations
        + LockerRegistry.migrations
        + DatabaseApprovalKeyRegistry.migrations

    @Test func `the article describes the tables in SQLite`() async throws {
        let database = try SQLiteDatabase()
        try await database.migrate(Self.migrations)
        let columns = try await Self.columns(
            of: database,
            """
            SELECT m.name AS table_name, p.name AS column_name, p.type AS type, p."notnull" = 0 AS is_nullable
            FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS p
            WHERE m.type = 'table' AND m.name LIKE 'latchkey%' AND m.name <> 'latchkey_migration' ORDER BY m.name, p.cid
            """)
        let keys = try await Self.keys(
            of: database,
            """
            SELECT m.name AS table_name, l.name AS index_name, i.name AS column_name,
                CASE l.origin WHEN 'pk' THEN 'primary key' WHEN 'u' THEN 'unique' ELSE 'index' END AS kind
            FROM sqlite_master AS m JOIN pragma_index_list(m.name) AS l JOIN pragma_index_info(l.name) AS i
            WHERE m.type = 'table' AND m.name LIKE 'latchkey%' AND m.name <> 'latchkey_migration' ORDER BY m.name, l.name, i.seqno
            """)
        let article = try Article()
        #expect(columns == article.columns { $0.sqlite })
        #expect(keys == article.keys)
    }

    /// In a separate schema, as the article describes.
    @Test(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
    func `the article describes the tables in PostgreSQL`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        try await PostgreSQLServer.shared.psql(address, "CREATE SCHEMA latchkey")
        let database = try PostgreSQLDatabase(
            PostgreSQLConfiguration(address: address + "&options=-csearch_path%3Dlatchkey"))
        try await database.migrate(Self.migrations)
        let columns = try await Self.columns(
            of: database,
            """
            SELECT table_name::text, column_name::text, data_type::text AS type, is_nullable = 'YES' AS is_nullable
            FROM information_schema.columns
            WHERE table_schema = 'latchkey' AND table_name <> 'latchkey_migration' ORDER BY table_name, ordinal_position
            """)
        let keys = try await Self.keys(
            of: database,
            """
            SELECT t.relname::text AS table_name, c.relname::text AS index_name, a.attname::text AS column_name,
                CASE WHEN x.indisprimary THEN 'primary key' WHEN x.indisunique THEN 'unique' ELSE 'index' END AS kind
            FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indexrelid JOIN pg_class AS t ON t.oid = x.indrelid
                JOIN pg_attribute AS a ON a.attrelid = x.indexrelid
            WHERE t.relnamespace = 'latchkey'::regnamespace AND t.relname <> 'latchkey_migration'
            ORDER BY t.relname, c.relname, a.attnum
            """)
        let article = try Article()
        #expect(columns == article.columns { $0.postgreSQL })
        #expect(keys == article.keys)
    }

    /// The columns of each table, in their order.
    private static func columns(of database: any SQLDatabase, _ query: SQLText) async throws
        -> [String: [Column]]
    {
        let rows = try await database.read { database in
            try database.rows(query).map { row in
                (
                    table: try row.text("table_name"),
                    column: Column(
                        name: try row.text("column_name"), type: try row.text("type"),
                        isNullable: try row.bool("is_nullable"))
                )
            }
        }
        return Dictionary(grouping: rows, by: \.table).mapValues { $0.map(\.column) }
    }

    /// The keys and indexes of each table, as the article writes them.
    private static func keys(of database: any SQLDatabase, _ query: SQLText) async throws
        -> [String: Set<String>]
    {
        let rows = try await database.read { database in
            try database.rows(query).map { row in
                (
                    table: try row.text("table_name"), index: try row.text("index_name"),
                    kind: try row.text("kind"), column: try row.text("column_name")
                )
            }
        }
        return Dictionary(grouping: rows, by: \.table).mapValues { rows in
            let indexes = Dictionary(grouping: rows, by: \.index).values
            return Set(
                indexes.map { index in
                    "\(index[0].kind): \(index.map { "`\($0.column)`" }.joined(separator: ", "))"
                })
        }
    }
}

private struct Column: Hashable, Sendable {
    let name: String
    let type: String
    let isNullable: Bool
}

/// The tables in `Tables.md`.
private struct Article {
    struct Row {
        let name: String
        let sqlite: String
        let postgreSQL: String
        let isNullable: Bool
    }

    private var rows: [String: [Row]] = [:]
    private(set) var keys: [String: Set<String>] = [:]

    init() throws {
        let path = "Sources/Server/LatchkeyRelyingParty/LatchkeyRelyingParty.docc/Tables.md"
        let text = try String(
            contentsOf: BuiltProduct.packageFolder.appending(path: path), encoding: .utf8)
        var table: String?
        for line in text.split(separator: "\n") {
            if line.hasPrefix("## ") { table = nil }
            if let heading = line.wholeMatch(of: /### `(?<name>\w+)`/) {
                table = String(heading.name)
            }
            guard let table else { continue }
            let row =
                /\| `(?<name>\w+)` \| `(?<sqlite>[^`]+)` \| `(?<other>[^`]+)` \| (?<null>yes|no) \| .+ \|/
            if let match = line.wholeMatch(of: row) {
                rows[table, default: []].append(
                    Row(
                        name: String(match.name), sqlite: String(match.sqlite),
                        postgreSQL: String(match.other),
                        isNullable: match.null == "yes"))
            }
            if let match = line.wholeMatch(of: /- (?<key>(primary key|unique|index): .+)/) {
                keys[table, default: []].insert(String(match.key))
            }
        }
    }

    func columns(_ type: (Row) -> String) -> [String: [Column]] {
        rows.mapValues {
            $0.map { Column(name: $0.name, type: type($0), isNullable: $0.isNullable) }
        }
    }
}
