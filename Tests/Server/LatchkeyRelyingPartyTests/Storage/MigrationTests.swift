import Dispatch
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

/// Migrations on both storages (`LATCHKEY_TEST_DATABASE`).
@Suite("Migrations") struct MigrationTests {
    private static func migration(_ name: String, _ statements: String) -> SQLMigration {
        SQLMigration(name, sqlite: statements, postgreSQL: statements)
    }

    private static let first = migration("first", "CREATE TABLE first (n BIGINT)")
    private static let second = migration("second", "ALTER TABLE first ADD COLUMN m BIGINT")

    private static func expect(
        _ code: SQLMigrationError.Code, _ name: String?,
        sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
    ) async {
        let error = await #expect(throws: SQLMigrationError.self, sourceLocation: sourceLocation) {
            try await body()
        }
        #expect(
            error?.code == code && error?.migration == name, "\(error?.description ?? "")",
            sourceLocation: sourceLocation)
    }

    @Test func `each migration is run once`() async throws {
        let database = try await TestDatabase.open([Self.first])
        try await database.migrate([Self.first])
        try await database.requireMigrations([Self.first])
        await Self.expect(.pending, "second") {
            try await database.requireMigrations([Self.first, Self.second])
        }
        try await database.migrate([Self.first, Self.second])
        try await database.requireMigrations([Self.first, Self.second])
        try await database.write { try $0.execute("INSERT INTO first (n, m) VALUES (1, 2)") }
    }

    @Test func `a database without tables is reported and not changed`() async throws {
        let database = try await TestDatabase.empty()
        for _ in 1...2 {
            await Self.expect(.noTables, nil) {
                try await database.requireMigrations([Self.first])
            }
        }
    }

    @Test func `tables of a newer program are refused`() async throws {
        let database = try await TestDatabase.open([Self.first, Self.second])
        await Self.expect(.unknown, "second") {
            try await database.requireMigrations([Self.first])
        }
        await Self.expect(.unknown, "second") { try await database.migrate([Self.first]) }
    }

    @Test func `a migration whose statements changed is refused`() async throws {
        let database = try await TestDatabase.open([Self.first])
        let changed = [Self.migration("first", "CREATE TABLE first (n TEXT)"), Self.second]
        await Self.expect(.changed, "first") { try await database.requireMigrations(changed) }
        await Self.expect(.changed, "first") { try await database.migrate(changed) }
        await Self.expect(.pending, "second") {
            try await database.requireMigrations([Self.first, Self.second])
        }
    }

    @Test func `a migration that fails changes nothing`() async throws {
        let database = try await TestDatabase.open([Self.first])
        let wrong = Self.migration("wrong", "DROP TABLE absent")
        await #expect(throws: (any Error).self) {
            try await database.migrate([Self.first, Self.second, wrong])
        }
        await Self.expect(.pending, "second") {
            try await database.requireMigrations([Self.first, Self.second])
        }
    }
}

/// Migrations while other processes use the database.
@Suite(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct PostgreSQLMigrationTests {
    private static let table = SQLMigration(
        "first", sqlite: "", postgreSQL: "CREATE TABLE first (n BIGINT)")

    /// A database whose statements may take half a second.
    private static func database(_ address: String) throws -> PostgreSQLDatabase {
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.statementTimeout = .milliseconds(500)
        configuration.connectionWait = hangLimit
        return try PostgreSQLDatabase(configuration)
    }

    /// Runs `body` during another process's transaction with this statement.
    private static func during(
        _ statement: SQLText, on address: String, _ body: () async throws -> Void
    ) async throws {
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.statementTimeout = hangLimit
        let database = try PostgreSQLDatabase(configuration)
        let (started, start) = AsyncStream.makeStream(of: Void.self)
        let end = DispatchSemaphore(value: 0)
        let transaction = Task {
            try await database.write {
                _ = try $0.rows(statement)
                start.finish()
                end.wait()
            }
        }
        for await _ in started {}
        let outcome: Result<Void, any Error>
        do { outcome = .success(try await body()) } catch { outcome = .failure(error) }
        end.signal()
        try await transaction.value
        try outcome.get()
    }

    @Test func `it waits for another migration, longer than a statement may take`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let database = try Self.database(address)
        var migration: Task<Void, any Error>?
        try await Self.during(
            "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended('latchkey migrations', 0))",
            on: address
        ) {
            let failure = await #expect(throws: SQLFailure.self) {
                try await database.migrate([Self.table], lockLimit: .seconds(1))
            }
            #expect(failure?.code == .timeout)
            migration = Task { try await database.migrate([Self.table]) }
        }
        try await migration?.value
        try await database.requireMigrations([Self.table])
    }

    @Test func `it waits for a reader of the table, and other readers do not wait for it`()
        async throws
    {
        let address = try await PostgreSQLServer.shared.database()
        let database = try Self.database(address)
        try await database.migrate([Self.table])
        let both = [
            Self.table,
            SQLMigration("second", sqlite: "", postgreSQL: "ALTER TABLE first ADD COLUMN m BIGINT"),
        ]
        let attempts =
            "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted"
        var migration: Task<Void, any Error>?
        try await Self.during("SELECT count(*) AS n FROM first", on: address) {
            migration = Task { try await database.migrate(both) }
            let isWaiting = try await poll {
                try await PostgreSQLServer.shared.psql(address, attempts) == "1\n"
            }
            #expect(isWaiting)
            // A statement of this connection may take half a second, and is repeated.
            let hasRead = await poll {
                (try? await database.read { try $0.rows("SELECT n FROM first") }) != nil
            }
            #expect(hasRead)
        }
        try await migration?.value
        try await database.requireMigrations(both)
    }

    @Test func `its statements may take longer than those of requests`() async throws {
        let database = try Self.database(try await PostgreSQLServer.shared.database())
        let slow = SQLMigration(
            "slow", sqlite: "", postgreSQL: "DO 'BEGIN PERFORM pg_sleep(1); END'")
        try await database.migrate([slow])
        let failure = await #expect(throws: SQLFailure.self) {
            try await database.read { try $0.rows("SELECT pg_sleep(600)::text AS done") }
        }
        #expect(failure?.code == .timeout, "the control")
    }

    @Test func `of processes that start at the same time, one migrates`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1...5 {
                group.addTask { try await Self.database(address).migrate([Self.table]) }
            }
            try await group.waitForAll()
        }
        let rows = try await PostgreSQLServer.shared.psql(
            address, "SELECT count(*) FROM latchkey_migration")
        #expect(rows == "1\n")
    }
}
