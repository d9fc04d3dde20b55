import FoundationEssentials
import HTTPTypes
import LatchkeyOAuth
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import latchkey_identity

/// Health, metrics and the time between SIGTERM and the end, with the program as a process.
@Suite("Management port") struct ManagementServerTests {
    private func get(_ origin: String?, _ path: String) async throws -> (status: Int, body: String)
    {
        let url = try #require(origin) + path
        let endpoint = try #require(Endpoint(url))
        let (response, body) = try await CurlTransport(timeout: 300).send(
            endpoint.request(.get), body: [])
        return (response.status.code, String(decoding: body, as: UTF8.self))
    }

    /// A database that does not answer before ``end()``, also if the task is cancelled.
    private final class SilentDatabase: SQLDatabase {
        private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])

        var dialect: SQLDialect { .sqlite }
        var clockOffset: Double { 0 }

        func read<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
            async throws -> R
        {
            await withCheckedContinuation { continuation in
                waiting.withLock { $0.append(continuation) }
            }
            throw SQLFailure(.unavailable, "no answer")
        }

        func write<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
            async throws -> R
        {
            try await read(body)
        }

        func migrate(_ migrations: [SQLMigration]) async throws {}

        /// - Returns: The number of queries that waited.
        func end() -> Int {
            let waiting = waiting.withLock { $0 }
            for continuation in waiting { continuation.resume() }
            return waiting.count
        }
    }

    @Test func `the health check does not wait for a database that does not answer`() async throws {
        try await TestServer.run { server in
            let database = SilentDatabase()
            #expect(await !ManagementServer.isReady(database, server.services.signer))
            #expect(database.end() == 1, "the database was asked, and had not answered")
        }
    }

    @Test func `a server that drains is not ready, and serves`() async throws {
        let server = try await IdentityProcess([
            "--demo", "--management-port", "0", "--drain-seconds", "3600",
        ])
        #expect(try await get(server.management, "/health/live").status == 200)
        #expect(try await poll { try await get(server.management, "/health/ready").status == 200 })
        server.terminate()
        #expect(try await poll { try await get(server.management, "/health/ready").status == 503 })
        #expect(try await get(server.management, "/health/live").status == 200)
        #expect(try await get(server.endpoint, "/oauth2/jwks").status == 200)
        await server.stop(9)
    }

    @Test func `the metrics count requests by route and status`() async throws {
        let server = try await IdentityProcess(["--demo", "--management-port", "0"])
        for _ in 1...3 { #expect(try await get(server.endpoint, "/oauth2/jwks").status == 200) }
        #expect(try await get(server.endpoint, "/nothing").status == 404)
        let labels =
            #"{http_route="/oauth2/jwks",http_request_method="GET",http_response_status_code="200"}"#
        var metrics = ""
        // The server counts a request after it has sent the response.
        let isCounted = try await poll {
            metrics = try await get(server.management, "/metrics").body
            return metrics.contains("hb_requests_total\(labels) 3.0\n")
                && metrics.contains(#"http_response_status_code="200",le="+Inf"} 3"#)
                && (metrics.contains(#"http_response_status_code="404"#)
                    || metrics.contains(#"error_type="404""#))
        }
        #expect(isCounted, "\(metrics)")
        #expect(metrics.contains("# TYPE http_server_request_duration_seconds histogram\n"))
        #expect(try await get(server.endpoint, "/metrics").status == 404, "not on the public port")
        #expect(await server.stop() == 0)
    }

    @Test(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
    func `a server without its database is live and not ready`() async throws {
        let postgres = PostgreSQLServer()
        let address = try await postgres.database()
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let server = try await IdentityProcess([
            "--demo", "--management-port", "0", "--database", address, "--signing-key-file",
            IdentityProcess.signingKeyFile(in: directory),
        ])
        #expect(try await poll { try await get(server.management, "/health/ready").status == 200 })
        try await postgres.end()
        #expect(try await poll { try await get(server.management, "/health/ready").status == 503 })
        #expect(try await get(server.management, "/health/live").status == 200)
        #expect(await server.stop() == 0)
    }
}
