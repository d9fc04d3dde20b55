import Foundation
import HTTPTypes
import LatchkeyOAuth
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `Examples/fleet/run`: three servers on one PostgreSQL database behind HAProxy.
@Suite(
    .requires(program: "haproxy"),
    .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct FleetExampleTests {
    private struct Ready: Decodable {
        let endpoint: String
        let database: String
        let instances: [Int32]
    }

    /// One server is killed, and another one ends as in an update, while clients request
    /// challenges. HAProxy answers 502 to a request that the killed server may have received, and
    /// the client requests another challenge.
    @Test func `with a killed and a stopped server, clients get an answer or a temporary error`()
        async throws
    {
        let program = BuiltProduct.packageFolder.appending(path: "Examples/fleet/run")
        let fleet = try RunningProgram(program, [])
        let line = await fleet.output { _ in true }
        let rest = Task { await fleet.remainder() }
        try await withTeardown({
            await fleet.stop()
            _ = await rest.value
        }) {
            let ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
            #expect(ready.instances.count == 3)
            // Below the limit of one address.
            // Below the limit of one address.
            let (issued, failed) = try await challenges(100, at: ready.endpoint) { number in
                if number == 30 { kill(ready.instances[0], SIGKILL) }
                if number == 60 { kill(ready.instances[1], SIGTERM) }
            }
            #expect(issued == 100 && failed <= 2, "\(failed) failed")
            let stored = try await PostgreSQLServer.shared.psql(
                ready.database, "SELECT COUNT(*) FROM latchkey_challenge")
            let count = try #require(Int(stored.trimmingCharacters(in: .whitespacesAndNewlines)))
            #expect((issued...issued + failed).contains(count), "all in the same database")
        }
    }

    /// Requests challenges one after the other, each with a new connection, and again after a
    /// temporary error.
    private func challenges(
        _ count: Int, at origin: String, before: (Int) -> Void
    ) async throws -> (issued: Int, failed: Int) {
        let url = try #require(Endpoint(origin + "/oauth2/challenge"))
        var request = url.request(.post)
        request.headerFields[.contentType] = "application/json"
        var (issued, failed) = (0, 0)
        while issued < count, failed <= count {
            before(issued)
            let (response, body) = try await CurlTransport(timeout: 20).send(
                request, body: Array(#"{"purpose":"biometric_request"}"#.utf8))
            switch response.status.code {
            case 200: issued += 1
            case 502, 503: failed += 1
            default:
                Issue.record(
                    "\(issued): \(response.status.code) \(String(decoding: body, as: UTF8.self))")
                return (issued, failed)
            }
        }
        return (issued, failed)
    }
}
