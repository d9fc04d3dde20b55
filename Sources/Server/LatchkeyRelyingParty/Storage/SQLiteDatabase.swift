internal import FoundationEssentials
public import GRDB

/// A SQLite database of GRDB.
public struct SQLiteDatabase: SQLDatabase {
    /// The connections.
    package let writer: any DatabaseWriter

    /// Uses a database, which should enforce foreign keys, GRDB's default.
    public init(_ writer: any DatabaseWriter) { self.writer = writer }

    public var dialect: SQLDialect { .sqlite }
    public var clockOffset: Double { 0 }

    public func read<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R
    {
        try await writer.read { try body(SQLiteConnection(database: $0)) }
    }

    @discardableResult
    public func write<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R
    {
        try await writer.write { try body(SQLiteConnection(database: $0)) }
    }

    public func migrate(_ migrations: [SQLMigration]) async throws {
        var migrator = DatabaseMigrator()
        migrator.register(migrations)
        let complete = migrator
        try complete.migrate(writer)
    }
}

/// A transaction of SQLite.
private struct SQLiteConnection: SQLConnection {
    let database: Database

    var dialect: SQLDialect { .sqlite }
    var now: Double? { nil }

    func execute(_ statement: SQLText) throws -> Int {
        let (sql, values) = statement.rendered(for: .sqlite)
        try database.cachedStatement(sql: sql).execute(arguments: Self.arguments(values))
        return database.changesCount
    }

    func rows(_ statement: SQLText) throws -> [SQLRow] {
        let (sql, values) = statement.rendered(for: .sqlite)
        let prepared = try database.cachedStatement(sql: sql)
        let columns = prepared.columnNames
        return try Row.fetchAll(prepared, arguments: Self.arguments(values)).map { row in
            SQLRow(columns: columns, values: row.databaseValues.map(Self.value))
        }
    }

    func script(_ statements: String) throws { try database.execute(sql: statements) }

    private static func arguments(_ values: [SQLValue]) -> StatementArguments {
        StatementArguments(
            values.map { value -> DatabaseValue in
                switch value {
                case .text(let value): value?.databaseValue ?? .null
                case .blob(let value): value?.databaseValue ?? .null
                case .real(let value): value?.databaseValue ?? .null
                case .integer(let value): value?.databaseValue ?? .null
                case .bool(let value): value?.databaseValue ?? .null
                }
            })
    }

    private static func value(_ value: DatabaseValue) -> SQLValue? {
        switch value.storage {
        case .null: nil
        case .int64(let number): .integer(Int(number))
        case .double(let number): .real(number)
        case .string(let text): .text(text)
        case .blob(let data): .blob(data)
        }
    }
}

/// A change of a database's tables, for both engines.
public struct SQLMigration: Sendable {
    /// The unique name under which databases record that the migration is done.
    public let name: String
    private let sqlite: String
    private let own: String?

    /// Creates a migration.
    ///
    /// - Parameters:
    ///   - sqlite: Statements for SQLite, constant text.
    ///   - postgreSQL: Statements for PostgreSQL; nil to derive them, by the names of types and
    ///     without `STRICT` and `WITHOUT ROWID`.
    public init(_ name: String, sqlite: String, postgreSQL: String? = nil) {
        self.name = name
        self.sqlite = sqlite
        own = postgreSQL
    }

    /// The statements for an engine.
    public func statements(for dialect: SQLDialect) -> String {
        switch dialect {
        case .sqlite: sqlite
        case .postgreSQL: own ?? Self.postgreSQL(from: sqlite)
        }
    }

    /// Statements for PostgreSQL, derived from those for SQLite.
    package static func postgreSQL(from sqlite: String) -> String {
        sqlite.replacing(" STRICT, WITHOUT ROWID", with: "").replacing(") STRICT", with: ")")
            .replacing(" BLOB", with: " BYTEA").replacing(" REAL", with: " DOUBLE PRECISION")
    }
}

extension DatabaseMigrator {
    /// Registers migrations for SQLite.
    package mutating func register(_ migrations: [SQLMigration]) {
        for migration in migrations {
            registerMigration(migration.name) {
                try $0.execute(sql: migration.statements(for: .sqlite))
            }
        }
    }
}
