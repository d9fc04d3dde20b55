import Foundation
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import LatchkeyPostgreSQL

/// Transactions, connections and faults of the database.
@Suite("PostgreSQL", .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct PostgreSQLTests {
    /// Time limits that a busy machine does not reach.
    private static func patient(_ address: String) -> PostgreSQLConfiguration {
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.statementTimeout = hangLimit
        configuration.connectionWait = hangLimit
        return configuration
    }

    @Test
    func `a connection cut within a transaction is replaced and the transaction repeated once`()
        async throws
    {
        let address = try await PostgreSQLServer.shared.database()
        let database = try PostgreSQLDatabase(
            Self.patient(address))
        try await database.write { try $0.script("CREATE TABLE t (n BIGINT)") }
        let attempts = Attempts()
        try await database.write { connection in
            try connection.execute("INSERT INTO t VALUES (1)")
            if attempts.next() == 1 {
                _ = try connection.rows("SELECT pg_terminate_backend(pg_backend_pid()) AS done")
            }
        }
        #expect(attempts.count == 2)
        #expect(try await PostgreSQLServer.shared.psql(address, "SELECT count(*) FROM t") == "1\n")
    }

    @Test func `a transaction whose COMMIT is cut without effect is not repeated`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let database = try PostgreSQLDatabase(PostgreSQLConfiguration(address: address))
        // A deferred trigger runs within COMMIT.
        try await database.write {
            try $0.script(
                """
                CREATE TABLE t (n BIGINT);
                CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS
                    'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
                CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION cut()
                """)
        }
        let attempts = Attempts()
        let failure = await #expect(throws: SQLFailure.self) {
            try await database.write { connection in
                _ = attempts.next()
                try connection.execute("INSERT INTO t VALUES (1)")
            }
        }
        #expect(failure?.code == .outcomeUnknown && failure?.isTemporary == true)
        #expect(attempts.count == 1)
        #expect(try await PostgreSQLServer.shared.psql(address, "SELECT count(*) FROM t") == "0\n")
    }

    @Test func `a restarted server is used again`() async throws {
        let server = PostgreSQLServer()
        var configuration = PostgreSQLConfiguration(address: try await server.database())
        configuration.connectionWait = hangLimit
        let database = try PostgreSQLDatabase(configuration)
        let store = DatabaseChallengeStore(database)
        try await database.migrate(DatabaseChallengeStore.migrations)
        let token = try await store.issue(.biometricRequest).token
        try await server.restart()
        #expect(try await store.consume(token, for: .biometricRequest))
        #expect(try await !store.consume(token, for: .biometricRequest))
        try await server.end()
    }

    @Test func `without a free connection, or a server, the error is temporary`() async throws {
        var configuration = PostgreSQLConfiguration(
            address: try await PostgreSQLServer.shared.database())
        // Long enough to connect on a busy machine.
        (configuration.maximumConnections, configuration.connectionWait) = (1, .seconds(15))
        configuration.statementTimeout = hangLimit
        let database = try PostgreSQLDatabase(configuration)
        try await database.check()
        let (started, start) = AsyncStream.makeStream(of: Void.self)
        let long = Task {
            try await database.read {
                start.finish()
                return try $0.rows("SELECT pg_sleep(600)::text AS done").count
            }
        }
        for await _ in started {}
        let refusal = await #expect(throws: SQLFailure.self) { try await database.check() }
        #expect(refusal?.code == .poolExhausted && refusal?.isTemporary == true)
        // Cancelling the task cancels the statement in the server, and the connection is free
        // again.
        long.cancel()
        await #expect(throws: CancellationError.self) { try await long.value }
        try await database.check()

        configuration.address = "postgresql:///x?host=/nonexistent"
        let absent = try PostgreSQLDatabase(configuration)
        let failure = await #expect(throws: SQLFailure.self) { try await absent.check() }
        #expect(failure?.code == .unavailable && failure?.isTemporary == true)
    }

    @Test
    func `a statement that takes too long ends with an error, and the connection remains usable`()
        async throws
    {
        var configuration = PostgreSQLConfiguration(
            address: try await PostgreSQLServer.shared.database())
        (configuration.maximumConnections, configuration.statementTimeout) = (1, .seconds(3))
        let database = try PostgreSQLDatabase(configuration)
        let failure = await #expect(throws: SQLFailure.self) {
            try await database.read { try $0.rows("SELECT pg_sleep(600)::text AS done") }
        }
        #expect(failure?.code == .timeout && failure?.sqlState == "57014")
        try await database.check()
    }

    @Test func `a connection prepares its statements again after the schema changed`() async throws
    {
        let address = try await PostgreSQLServer.shared.database()
        var configuration = PostgreSQLConfiguration(address: address)
        configuration.maximumConnections = 1
        let database = try PostgreSQLDatabase(configuration)
        try await database.write { try $0.script("CREATE TABLE item (id TEXT)") }
        let read: () async throws -> [SQLRow] = {
            try await database.read { try $0.rows("SELECT * FROM item") }
        }
        _ = try await read()
        try await PostgreSQLServer.shared.psql(address, "ALTER TABLE item ADD COLUMN more TEXT")
        #expect(try await read().isEmpty)
        try await PostgreSQLServer.shared.psql(address, "INSERT INTO item VALUES ('a', 'b')")
        #expect(try await read().first?.text("more") == "b")
    }

    @Test func `COMMIT of a transaction whose failure its body ignored is an error`() async throws {
        let database = try PostgreSQLDatabase(
            Self.patient(try await PostgreSQLServer.shared.database()))
        let failure = await #expect(throws: SQLFailure.self) {
            try await database.write { _ = try? $0.rows("SELECT 1 / 0 AS x") }
        }
        #expect(failure?.code == .statement)
        try await database.check()
    }

    @Test
    func `of statements sent together, a failure undoes all, and the connection remains usable`()
        async throws
    {
        var configuration = PostgreSQLConfiguration(
            address: try await PostgreSQLServer.shared.database())
        configuration.maximumConnections = 1
        let database = try PostgreSQLDatabase(configuration)
        try await database.write { try $0.script("CREATE TABLE item (id TEXT PRIMARY KEY)") }
        let insert: @Sendable ([String]) async throws -> Void = { names in
            try await database.write { connection in
                let insertions = names.map { name -> SQLText in "INSERT INTO item VALUES (\(name))"
                }
                try connection.execute(insertions + ["DELETE FROM item WHERE id = 'b'"])
            }
        }
        for _ in 1...2 {
            let failure = await #expect(throws: SQLFailure.self) {
                try await insert(["d", "d", "e"])
            }
            #expect(failure?.sqlState == "23505")
        }
        try await insert(["a", "b", "c"])
        let prepared = try await database.read {
            try $0.rows("SELECT name FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'")
                .count
        }
        #expect(prepared == 1, "a failure does not prepare a statement again")
        let left = try await database.read {
            try $0.rows("SELECT id FROM item ORDER BY id").map { try $0.text("id") }
        }
        #expect(left == ["a", "c"])
    }

    /// The plan of a prepared statement assumes that a third of all rows are expired.
    @Test func `deleting expired rows reads no other rows`() async throws {
        let address = try await PostgreSQLServer.shared.database()
        let database = try PostgreSQLDatabase(PostgreSQLConfiguration(address: address))
        try await database.migrate(DatabaseChallengeStore.migrations)
        let deletion = try await database.read {
            $0.deletionOfExpired(from: "latchkey_challenge", key: "digest", at: 0)
                .rendered(for: .postgreSQL).text
        }
        let plan = try await PostgreSQLServer.shared.psql(
            address,
            """
            INSERT INTO latchkey_challenge
            SELECT sha256(convert_to(n::text, 'UTF8')), 'test', 4e9 + n * 7919 % 10007 FROM generate_series(1, 10000) AS n;
            ANALYZE latchkey_challenge;
            SET plan_cache_mode = force_generic_plan;
            PREPARE deletion (double precision, bigint) AS \(deletion);
            EXPLAIN (COSTS OFF) EXECUTE deletion (0, 100)
            """)
        #expect(
            plan.contains("Index Scan using latchkey_challenge_expiry")
                && !plan.contains("Seq Scan"), "\(plan)")
    }

    /// libpq ignores both for Unix sockets, and the host can come from the environment.
    @Test(arguments: ["/x", "db.example.com/x"])
    func `without another setting, a server must have a valid certificate`(address: String) throws {
        let parameters = try ConnectionParameters(
            PostgreSQLConfiguration(address: "postgresql://\(address)"))
        #expect(parameters.hosts[0].first { $0.0 == "sslmode" }?.1 == "verify-full")
        let own = try ConnectionParameters(
            PostgreSQLConfiguration(address: "postgresql:///x?sslmode=require"))
        #expect(own.hosts[0].first { $0.0 == "sslmode" }?.1 == "require", "the control")
    }

    /// Each attempt would fail in the same way. The server refuses with SQLSTATE, libpq without.
    @Test func `a refused connection is not repeated`() async throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let passwords = directory.path(of: "pgpass")
        let isCreated = FileManager.default.createFile(
            atPath: passwords, contents: Data("*:*:*:latchkey:wrong\n".utf8),
            attributes: [.posixPermissions: 0o600])
        try #require(isCreated)
        let host = "127." + (0..<3).map { _ in "\(Int.random(in: 1...250))" }.joined(separator: ".")
        try await withDatabase(PostgreSQLServer(["listen_addresses": host])) { local in
            let tcp = "\(local)&host=\(host)&sslmode=disable"
            for (address, state, message) in [
                ("\(local)&user=nobody", "28000", #"role "nobody" does not exist"#),
                ("\(local)&dbname=none", "3D000", #"database "none" does not exist"#),
                ("\(local)&options=-cnone%3D1", "42704", "unrecognized configuration parameter"),
                (
                    "\(tcp)&passfile=\(passwords)", "28P01",
                    "password authentication failed for user"
                ),
                (tcp, nil, "no password supplied"),
                ("\(tcp)&sslmode=require", nil, "server does not support SSL"),
                ("\(local)&sslmode=banana", nil, "invalid sslmode value"),
            ] as [(String, String?, String)] {
                let database = try PostgreSQLDatabase(Self.patient(address))
                let failure = await #expect(throws: SQLFailure.self) { try await database.check() }
                #expect(failure?.code == .refused && failure?.sqlState == state, "\(address)")
                let text = failure?.message ?? ""
                #expect(text.contains(message) && !text.contains("LOCATION"), "\(text)")
                #expect(failure?.isTemporary == true)
            }
            try await PostgreSQLDatabase(Self.patient(local)).check()
        }
    }

    @Test func `a password file that libpq would ignore is refused`() throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let path = directory.path(of: "pgpass")
        func refusal() -> String {
            do {
                _ = try PostgreSQLDatabase(
                    PostgreSQLConfiguration(address: "postgresql:///x?passfile=\(path)"))
                return ""
            } catch {
                return "\(error)"
            }
        }
        #expect(refusal().contains("\(path) cannot be read: No such file"), "\(refusal())")
        // libpq then uses the standard file.
        #expect(throws: Never.self) {
            try PostgreSQLDatabase(PostgreSQLConfiguration(address: "postgresql:///x?passfile="))
        }
        try #require(
            FileManager.default.createFile(
                atPath: path, contents: nil, attributes: [.posixPermissions: 0o640]))
        #expect(refusal().contains("its group or others have rights to it"), "\(refusal())")
        try #require(chmod(path, 0o600) == 0)
        #expect(refusal().isEmpty)
        unlink(path)
        try #require(mkdir(path, 0o700) == 0)
        #expect(refusal().contains("it is a directory"), "\(refusal())")
    }

    @Test func `an address with a password is refused without repeating it`() {
        let error = #expect(throws: PostgreSQLConfigurationError.self) {
            _ = try PostgreSQLDatabase(
                PostgreSQLConfiguration(address: "postgresql://u:hunter2@localhost/x"))
        }
        #expect(
            error?.description.contains("password") == true
                && error?.description.contains("hunter2") == false)
    }
}

/// Counts calls.
final class Attempts: Sendable {
    private let state = Mutex(0)

    var count: Int { state.withLock { $0 } }

    func next() -> Int {
        state.withLock { count in
            count += 1
            return count
        }
    }
}
