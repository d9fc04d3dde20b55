import FoundationEssentials
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeyTestSupport

@testable import latchkey_identity

/// The storage of the tests: SQLite in memory, or PostgreSQL with `LATCHKEY_TEST_DATABASE=postgresql`.
enum TestDatabase {
    static let isPostgreSQL = ProcessInfo.processInfo.environment["LATCHKEY_TEST_DATABASE"] == "postgresql"

    /// A new, empty database with the server's tables.
    static func open() async throws -> any SQLDatabase {
        guard isPostgreSQL else { return try IdentityDatabase.open(path: nil) }
        return try await IdentityDatabase.open(location: await PostgreSQLServer.shared.database())
    }
}
