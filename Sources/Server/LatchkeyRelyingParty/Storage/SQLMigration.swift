internal import Latchkey

/// A change of a database's tables, for both engines.
///
/// Pass the migrations of all stores, and those of your own tables, in one list to
/// ``SQLDatabase/migrate(_:)``. Do not change the statements of a migration that you released.
public struct SQLMigration: Sendable {
    /// The unique name under which databases record that the migration is done.
    public let name: String
    private let sqlite: String
    private let postgreSQL: String

    /// Creates a migration from constant statements, separated by semicolons.
    public init(_ name: String, sqlite: String, postgreSQL: String) {
        (self.name, self.sqlite, self.postgreSQL) = (name, sqlite, postgreSQL)
    }

    /// The statements for an engine.
    public func statements(for dialect: SQLDialect) -> String {
        switch dialect {
        case .sqlite: sqlite
        case .postgreSQL: postgreSQL
        }
    }

    /// SHA-256 of the statements for an engine, 43 characters of base64url.
    package func checksum(for dialect: SQLDialect) -> String {
        Base64URL.encode(MessageDigest(sha256: statements(for: dialect).utf8).bytes)
    }
}

/// The tables of a database are not those of this program.
public struct SQLMigrationError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The difference.
    public enum Code: Hashable, Sendable {
        /// The database records no migration.
        case noTables
        /// Not all migrations are done.
        case pending
        /// A newer or another program did a migration that this program does not know.
        case unknown
        /// The statements of a migration differ from those that were run.
        case changed
    }

    /// The difference.
    public let code: Code
    /// The name of the first migration that differs; nil for ``Code/noTables``.
    public let migration: String?

    public var description: String {
        let name = migration ?? ""
        return switch code {
        case .noTables: "the database contains no tables of this program"
        case .pending: "the database lacks tables of this version (\(name))"
        case .unknown:
            "the tables of the database are those of a newer or another program (\(name))"
        case .changed: "the tables of the database were made by other statements (\(name))"
        }
    }
}

extension SQLDatabase {
    /// Runs the migrations that this database does not contain, in this order and in one
    /// transaction. Of several processes, one runs them, and the others wait. Waits at most ten
    /// minutes for other transactions that use the tables; requests do not wait longer than half a
    /// second behind this.
    ///
    /// - Throws: ``SQLMigrationError`` with code `unknown` or `changed`, which changes nothing;
    ///   ``SQLFailure``.
    public func migrate(_ migrations: [SQLMigration]) async throws {
        try await migrate(migrations, lockLimit: .seconds(600))
    }

    /// - Parameter lockLimit: The maximum wait for other transactions.
    package func migrate(_ migrations: [SQLMigration], lockLimit: Duration) async throws {
        let end = ContinuousClock.now + lockLimit
        while true {
            do {
                return try await changeTables { try $0.apply(migrations) }
            } catch let error as SQLFailure where error.code == .timeout {
                guard ContinuousClock.now < end else {
                    throw SQLFailure(
                        .timeout, sqlState: error.sqlState,
                        "other transactions use the tables for more than \(lockLimit)")
                }
                try await Task.sleep(for: .milliseconds(200))
            }
        }
    }

    /// Checks that the database has the tables of these migrations, and no others. Changes nothing,
    /// and needs only the right to read.
    ///
    /// - Throws: ``SQLMigrationError``; ``SQLFailure``.
    public func requireMigrations(_ migrations: [SQLMigration]) async throws {
        try await read { connection in
            guard let applied = try connection.appliedMigrations(), !applied.isEmpty else {
                throw SQLMigrationError(code: .noTables, migration: nil)
            }
            if let first = try connection.pending(migrations, applied).first {
                throw SQLMigrationError(code: .pending, migration: first.name)
            }
        }
    }
}

extension SQLConnection {
    fileprivate func apply(_ migrations: [SQLMigration]) throws {
        if dialect == .postgreSQL {
            let lock = try row(
                """
                SELECT pg_try_advisory_xact_lock(hashtextextended('latchkey migrations', 0)) AS is_held
                """)
            guard try lock?.bool("is_held") == true else {
                throw SQLFailure(.timeout, "another process changes the tables")
            }
            // While this transaction waits for a table, all later ones wait behind it.
            try script("SET LOCAL lock_timeout = '500ms'")
        }
        let applied = try appliedMigrations()
        if applied == nil {
            try script(
                """
                CREATE TABLE latchkey_migration (
                    name TEXT PRIMARY KEY NOT NULL,
                    checksum TEXT NOT NULL
                )
                """)
        }
        for migration in try pending(migrations, applied ?? [:]) {
            try script(migration.statements(for: dialect))
            try execute(
                """
                INSERT INTO latchkey_migration (name, checksum)
                VALUES (\(migration.name), \(migration.checksum(for: dialect)))
                """)
        }
    }

    /// The checksums of the recorded migrations by their names; nil without a record.
    fileprivate func appliedMigrations() throws -> [String: String]? {
        let table: SQLText =
            switch dialect {
            case .sqlite: "SELECT 1 FROM sqlite_master WHERE name = 'latchkey_migration'"
            case .postgreSQL: "SELECT 1 FROM pg_class WHERE oid = to_regclass('latchkey_migration')"
            }
        guard try row(table) != nil else { return nil }
        return try rows("SELECT name, checksum FROM latchkey_migration").reduce(into: [:]) {
            $0[try $1.text("name")] = try $1.text("checksum")
        }
    }

    /// The migrations to run.
    fileprivate func pending(_ migrations: [SQLMigration], _ applied: [String: String]) throws
        -> [SQLMigration]
    {
        let known = Dictionary(migrations.map { ($0.name, $0) }) { first, _ in first }
        for (name, checksum) in applied.sorted(by: { $0.key < $1.key }) {
            guard let migration = known[name] else {
                throw SQLMigrationError(code: .unknown, migration: name)
            }
            guard migration.checksum(for: dialect) == checksum else {
                throw SQLMigrationError(code: .changed, migration: name)
            }
        }
        return migrations.filter { applied[$0.name] == nil }
    }
}
