import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySQLite
import LatchkeyTestSupport

/// The storage of the tests: SQLite in memory, or PostgreSQL with
/// `LATCHKEY_TEST_DATABASE=postgresql`.
enum TestDatabase {
    /// A new database with the tables of these migrations.
    static func open(_ migrations: [SQLMigration]) async throws -> any SQLDatabase {
        let database = try await empty()
        try await database.migrate(migrations)
        return database
    }

    static func empty() async throws -> any SQLDatabase {
        guard PostgreSQLServer.isSelected else { return try SQLiteDatabase() }
        let address = try await PostgreSQLServer.shared.database()
        return try PostgreSQLDatabase(PostgreSQLConfiguration(address: address))
    }
}
