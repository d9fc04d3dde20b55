import LatchkeyRelyingParty
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import latchkey_identity

/// Used and expired tokens, on both storages (`LATCHKEY_TEST_DATABASE`).
@Suite("Expired rows") struct ExpiredRowsTests {
    /// A database that counts the rows of its transactions.
    private final class Counted: SQLDatabase {
        private struct Connection: SQLConnection {
            let own: any SQLConnection
            let count: @Sendable (Int) -> Void

            var dialect: SQLDialect { own.dialect }
            var now: Double? { own.now }

            func execute(_ statement: SQLText) throws -> Int {
                let changes = try own.execute(statement)
                count(changes)
                return changes
            }

            func rows(_ statement: SQLText) throws -> [SQLRow] { try own.rows(statement) }
            func script(_ statements: String) throws { try own.script(statements) }
        }

        private let own: any SQLDatabase
        private let changes = Mutex<[Int]>([])

        init(_ own: any SQLDatabase) { self.own = own }

        var counts: [Int] { changes.withLock { $0 } }
        var dialect: SQLDialect { own.dialect }
        var clockOffset: Double { own.clockOffset }

        func read<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
            async throws -> R
        {
            try await own.read(body)
        }

        func write<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
            async throws -> R
        {
            try await own.write { [self] connection in
                try body(
                    Connection(own: connection) { [self] count in
                        changes.withLock { $0.append(count) }
                    })
            }
        }
    }

    private static func rows(_ server: TestServer, _ table: StaticString) async throws -> Int? {
        try await server.services.database.read {
            try $0.row("SELECT count(*) AS count FROM \(SQLText(constant: table))")?.integer(
                "count")
        }
    }

    @Test func `a used refresh token has no row, and ends the session when it is used again`()
        async throws
    {
        try await TestServer.run { server in
            let first = try #require(try await server.login().refresh)
            var last = first
            for _ in 1...20 {
                last = try #require(try Tokens(await server.refresh(last).success()).refresh)
            }
            #expect(try await Self.rows(server, "offline_grant") == 1)
            // Only a holder of an earlier token can end the session: the ID is in ID tokens.
            let id = try #require(first.split(separator: ".").first)
            for forged in ["\(id).\(String(repeating: "x", count: 64))", "\(id)", "\(first)x"] {
                #expect(try await server.refresh(forged).status == 400)
                _ = try await server.post("/oauth2/revoke", form: ["token": forged])
            }
            last = try #require(try Tokens(await server.refresh(last).success()).refresh)
            #expect(try await server.refresh(first).status == 400)
            #expect(try await server.refresh(last).status == 400)
            #expect(try await Self.rows(server, "offline_grant") == 0)
        }
    }

    @Test func `a login deletes no expired sessions, and the server deletes them in batches`()
        async throws
    {
        try await TestServer.run { server in
            let count = 2 * ExpiredRows.batch + 1
            let user = server.alice.id
            try await server.services.database.write { database in
                try database.execute(
                    """
                    WITH RECURSIVE number (n) AS (
                        SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < \(count)
                    )
                    INSERT INTO offline_grant (
                        id, client_id, user_id, scope, auth_time, expires_at, idle_expires_at
                    ) SELECT 'expired ' || n, 'app', \(user), 'openid', 1, 2, 2 FROM number
                    """)
                for number in 1...count {
                    try database.execute(
                        """
                        INSERT INTO access_token (digest, grant_id, expires_at)
                        VALUES (\(OpaqueToken.digest("\(number)")), \("expired \(number)"), 2)
                        """)
                }
            }
            _ = try await server.login()
            #expect(try await Self.rows(server, "offline_grant") == count + 1)

            let database = Counted(server.services.database)
            try await ExpiredRows(
                database: database, clock: server.time.clock, logger: TestServer.quiet
            ).delete()
            #expect(try await Self.rows(server, "offline_grant") == 1)
            #expect(try await Self.rows(server, "access_token") == 1)
            #expect(database.counts.allSatisfy { $0 <= ExpiredRows.batch })
            #expect(database.counts.reduce(0, +) >= 2 * count)
        }
    }

    @Test func `a session without a valid token is deleted`() async throws {
        try await TestServer.run { server in
            _ = try await server.login()
            let expired = ExpiredRows(
                database: server.services.database, clock: server.time.clock,
                logger: TestServer.quiet)
            try await expired.delete()
            #expect(try await Self.rows(server, "offline_grant") == 1)
            #expect(try await Self.rows(server, "access_token") == 1)
            server.time.advance(by: 30 * 86_400)
            try await expired.delete()
            for table: StaticString in [
                "offline_grant", "access_token", "authorization_code", "web_session",
            ] {
                #expect(try await Self.rows(server, table) == 0, "\(table)")
            }
        }
    }
}
