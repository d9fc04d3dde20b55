import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The storage of the tests: SQLite in memory, or PostgreSQL with
/// `LATCHKEY_TEST_DATABASE=postgresql`.
enum TestDatabase {
    /// A new, empty database with the server's tables.
    static func open() async throws -> any SQLDatabase {
        try await open(
            PostgreSQLServer.isSelected
                ? PostgreSQLServer.shared.database() : IdentityDatabase.memory)
    }

    /// A database with the server's tables, and time limits that a busy machine does not reach.
    static func open(_ location: String, connections: Int = 8) async throws -> any SQLDatabase {
        try await IdentityDatabase.open(location, creating: true) {
            $0.maximumConnections = connections
            $0.statementTimeout = hangLimit
            $0.connectionWait = hangLimit
        }
    }

    /// The encryption of signing keys that PostgreSQL requires; nil for SQLite. Always the same.
    static func cipher() throws -> SigningKeyCipher? {
        try PostgreSQLServer.isSelected ? SigningKeyCipher.test() : nil
    }
}

extension SigningKeyCipher {
    /// The encryption with the file of this byte, which exists only while it is read.
    static func test(byte: UInt8 = 7) throws -> SigningKeyCipher {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        return try SigningKeyCipher(path: IdentityProcess.signingKeyFile(in: directory, byte: byte))
    }
}
