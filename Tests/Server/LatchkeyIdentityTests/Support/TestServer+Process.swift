import FoundationEssentials
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

extension TestServer {
    /// Runs `body` with the program as the test's server, with its two users in the program's
    /// database.
    ///
    /// - Parameter database: The location of ``IdentityProcess/storage(in:)``.
    static func lend<Value: Sendable>(
        _ process: IdentityProcess, database: String, cipher: SigningKeyCipher? = nil,
        _ body: @Sendable (TestServer) async throws -> Value
    ) async throws -> Value {
        let services = try await IdentityServices(
            configuration,
            database: TestDatabase.open(database),
            hasher: PasswordHasher(logRounds: 4),
            signingKeyCipher: cipher ?? TestDatabase.cipher())
        for name in ["alice", "bob"] where try await services.users.user(named: name) == nil {
            try await services.users.add(username: name, password: password)
        }
        let server = TestServer(
            origin: process.endpoint, services: services, time: .atWholeSecond(),
            alice: try #require(try await services.users.user(named: "alice")),
            bob: try #require(try await services.users.user(named: "bob")))
        return try await TestDevice.$issuer.withValue(process.endpoint) { try await body(server) }
    }
}
