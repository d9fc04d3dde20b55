import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// Connections that are cut while PostgreSQL commits: the client does not know whether the
/// transaction took effect.
@Suite(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct PostgreSQLCommitTests {
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

    /// Servers answer 503 to the first refresh, and 400 `invalid_grant` to the second.
    @Test func `repeating a refresh whose answer was lost after COMMIT ends the session`()
        async throws
    {
        let server = PostgreSQLServer()
        try await withDatabase(server) { address in
            let services = try await PostgreSQLTests.instances(1, on: address)[0]
            let user = try await services.users.add(
                username: "alice", password: TestServer.password)
            let grant = PostgreSQLTests.grant(of: user)
            let (first, second) = (PostgreSQLTests.tokens(grant), PostgreSQLTests.tokens(grant))
            #expect(try await services.grants.insert(grant, tokens: first))
            let (old, new) = (try #require(first.refreshToken), try #require(second.refreshToken))

            // COMMIT takes effect, then waits for a replica that does not exist.
            try await server.psql(address, "ALTER SYSTEM SET synchronous_standby_names = 'absent'")
            try await server.restart(.fast)
            let refresh = Task {
                try await services.grants.refresh(
                    grant, replacing: old, with: second, deviceInfo: nil, idleTimeout: 60)
            }
            let isCut = try await poll {
                try await server.psql(
                    address,
                    """
                    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'
                    """) == "1\n"
            }
            #expect(isCut)
            let failure = await #expect(throws: SQLFailure.self) { try await refresh.value }
            #expect(failure?.code == .outcomeUnknown && failure?.isTemporary == true)
            let used = try await server.psql(
                address, "SELECT count(*) FROM refresh_token WHERE is_used")
            #expect(used == "1\n", "the refresh took effect")

            try await server.psql(address, "ALTER SYSTEM RESET synchronous_standby_names")
            try await server.restart(.fast)
            #expect(try await services.grants.session(refreshToken: old) == nil)
            #expect(
                try await services.grants.session(refreshToken: new) == nil, "the session ended")
        }
    }
}
