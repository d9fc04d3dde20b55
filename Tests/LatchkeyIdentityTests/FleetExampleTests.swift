import Foundation
import HTTPTypes
import LatchkeyHTTP
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// `Examples/fleet/run`: three servers on one PostgreSQL database behind HAProxy.
@Suite(
    .requires(program: "haproxy"), .enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
struct FleetExampleTests {
    private struct Ready: Decodable {
        let endpoint: String
        let database: String
        let instances: [Int32]
    }

    /// One server is killed, and another one ends as in an update, while clients request challenges.
    @Test func `clients notice neither a killed nor a stopped server`() async throws {
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
            let issued = try await challenges(200, at: ready.endpoint) { number in
                if number == 50 { kill(ready.instances[0], SIGKILL) }
                if number == 100 { kill(ready.instances[1], SIGTERM) }
            }
            #expect(issued == 200)
            let stored = try await PostgreSQLServer.shared.psql(
                ready.database, "SELECT COUNT(*) FROM latchkey_challenge")
            #expect(stored.trimmingCharacters(in: .whitespacesAndNewlines) == "200", "each in the same database")
        }
    }

    /// Requests challenges one after the other, each by a new connection.
    private func challenges(
        _ count: Int, at origin: String, before: (Int) -> Void
    ) async throws -> Int {
        let url = try #require(Endpoint(origin + "/oauth2/challenge"))
        var issued = 0
        for number in 0..<count {
            before(number)
            var request = url.request(.post)
            request.headerFields[.contentType] = "application/json"
            let (response, body) = try await CurlTransport(timeout: 20).send(
                request, body: Array(#"{"purpose":"biometric_request"}"#.utf8))
            #expect(response.status.code == 200, "\(number): \(String(decoding: body, as: UTF8.self))")
            if response.status.code == 200 { issued += 1 }
        }
        return issued
    }
}
