import FoundationEssentials
import Glibc
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Faults of a fleet and its database while clients log in, rotate refresh tokens and set up
/// devices (``FleetClient``).
///
/// One after the other: each has its own PostgreSQL and three servers.
@Suite(.serialized, .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct FleetFaultTests {
    /// Without a log of all statements.
    private static let quiet = ["log_statement": "none"]

    /// `FleetKillTests` kills more often.
    @Test func `clients of killed instances get an answer of others, and no device is lost`()
        async throws
    {
        try await FleetKillTests.kill(10)
    }

    @Test func `after restarts of PostgreSQL, nothing was accepted twice and no device is lost`()
        async throws
    {
        let server = PostgreSQLServer(Self.quiet)
        try await withDatabase(server) { address in
            try await Fleet.run(on: address) { _, load in
                for _ in 1...2 {
                    for shutdown in PostgreSQLServer.Shutdown.allCases {
                        try await server.restart(shutdown)
                        try await load.progress(by: 8)
                    }
                }
            }
        }
    }

    @Test func `after cuts within transactions, nothing was accepted twice and no device is lost`()
        async throws
    {
        let server = PostgreSQLServer(Self.quiet)
        // Only connections with a transaction, and at every fifth time all.
        func cut(_ address: String, _ number: Int) async throws -> Int {
            let condition = number % 5 == 0 ? "TRUE" : "xact_start IS NOT NULL"
            let count = try await server.psql(
                address,
                """
                SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND \(condition)
                """)
            // Warnings follow, about connections that have just ended.
            return try #require(Int(count.prefix { $0.isNumber }))
        }
        try await withDatabase(server) { address in
            try await Fleet.run(on: address) { _, load in
                var (total, number) = (0, 0)
                let isDone = try await poll {
                    number += 1
                    total += try await cut(address, number)
                    if number % 10 == 0 { try await load.progress(by: 1) }
                    return total >= 100 && number >= 50
                }
                #expect(isDone, "\(total) connections were cut")
            }
        }
    }

    /// The servers know both hosts, and find the one that accepts writes.
    @Test
    func `after the promotion of a replica, nothing was accepted twice and no device is lost`()
        async throws
    {
        let primary = PostgreSQLServer(Self.quiet)
        try await withDatabase(primary) { single in
            let replica = try await primary.synchronousReplica()
            let host = try await primary.folder.path
            let other = try await replica.folder.path
            let address = single.replacing("host=\(host)", with: "host=\(host),\(other)")
            try #require(address != single)
            try await withTeardown({
                do { try await replica.end() } catch { Issue.record(error) }
            }) {
                try await Fleet.run(on: address) { _, load in
                    try await primary.stop(.immediate)
                    let before = load[.temporaryError]
                    let isLost = await poll { load[.temporaryError] > before }
                    #expect(isLost, "the replica accepts no writes before its promotion")
                    try await replica.promote()
                    try await load.progress(by: 16)
                }
            }
        }
    }

    /// Another program uses the remaining connections of PostgreSQL. The instances continue with
    /// their own.
    @Test func `without further connections to PostgreSQL, the fleet uses those that it has`()
        async throws
    {
        let server = PostgreSQLServer(Self.quiet.merging(["max_connections": "16"]) { $1 })
        try await withDatabase(server) { address in
            try await Fleet.run(on: address) { _, load in
                var configuration = PostgreSQLConfiguration(address: address)
                (configuration.maximumConnections, configuration.connectionWait) = (1, .seconds(15))
                var others: [PostgreSQLDatabase] = []
                var refusal: SQLFailure?
                while refusal == nil {
                    let database = try PostgreSQLDatabase(configuration)
                    do {
                        try await database.check()
                        others.append(database)
                    } catch let error as SQLFailure {
                        refusal = error
                    }
                }
                #expect(refusal?.code == .unavailable && refusal?.isTemporary == true)
                #expect(
                    refusal?.message.contains("too many clients") == true,
                    "\(refusal?.message ?? "")")
                try await load.progress(by: 16)
                for database in others { database.close() }
            }
        }
    }

    /// Sends the head and a part of the body of requests, and keeps the connections open.
    private static let slowClients = #"""
        import socket, sys, time
        ends = []
        for port in map(int, sys.argv[1:]):
            for _ in range(60):
                end = socket.create_connection(('127.0.0.1', port), source_address=('127.0.0.2', 0))
                end.sendall(
                    b'POST /oauth2/token HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 1000\r\n'
                    b'Content-Type: application/x-www-form-urlencoded\r\n\r\nclient_id=' % port)
                ends.append(end)
        print('holding', flush=True)
        time.sleep(600)
        """#

    @Test(.requires(program: "python3"))
    func `clients that do not finish a request hold no connection to PostgreSQL`()
        async throws
    {
        let server = PostgreSQLServer(Self.quiet)
        try await withDatabase(server) { address in
            try await Fleet.run(on: address) { fleet, load in
                let slow = try RunningProgram(
                    URL(filePath: "/usr/bin/python3"),
                    ["-c", Self.slowClients] + fleet.ports)
                let said = await slow.output { $0.contains("holding") }
                try await withTeardown({ await slow.stop(SIGKILL) }) {
                    #expect(said.contains("holding"))
                    try await load.progress(by: 16)
                }
            }
        }
    }
}

extension String {
    fileprivate var trimmed: String { filter { !$0.isWhitespace } }
}
