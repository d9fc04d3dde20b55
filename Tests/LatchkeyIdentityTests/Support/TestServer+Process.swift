import FoundationEssentials
import HummingbirdTesting
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

extension TestServer {
    /// Runs `body` with the program as the test's server, with its two users in the program's database.
    static func lend<Value: Sendable>(
        _ process: IdentityProcess, database: String, _ body: @Sendable (TestServer) async throws -> Value
    ) async throws -> Value {
        let services = try await IdentityServices(
            configuration, database: IdentityDatabase.open(path: database),
            hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)))
        for name in ["alice", "bob"] where try await services.users.user(named: name) == nil {
            try await services.users.add(username: name, password: password)
        }
        let port = try #require(URLComponents(string: process.endpoint)?.port)
        let client = TestClient(host: "127.0.0.1", port: port)
        client.connect()
        let server = TestServer(
            origin: process.endpoint, client: client, services: services, time: .atWholeSecond(),
            alice: try #require(try await services.users.user(named: "alice")),
            bob: try #require(try await services.users.user(named: "bob")))
        let outcome: Result<Value, any Error>
        do {
            outcome = .success(try await body(server))
        } catch {
            outcome = .failure(error)
        }
        try await client.shutdown()
        return try outcome.get()
    }
}
