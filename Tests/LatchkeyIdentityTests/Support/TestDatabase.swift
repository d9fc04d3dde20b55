import FoundationEssentials
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The storage of the tests: SQLite in memory, or PostgreSQL with `LATCHKEY_TEST_DATABASE=postgresql`.
enum TestDatabase {
    static let isPostgreSQL = ProcessInfo.processInfo.environment["LATCHKEY_TEST_DATABASE"] == "postgresql"

    /// A new, empty database with the server's tables.
    static func open() async throws -> any SQLDatabase {
        guard isPostgreSQL else { return try IdentityDatabase.open(path: nil) }
        return try await IdentityDatabase.open(location: await PostgreSQLServer.shared.database())
    }

    /// The encryption of signing keys that PostgreSQL requires; nil for SQLite. Always the same.
    static func cipher() throws -> SigningKeyCipher? { try isPostgreSQL ? SigningKeyCipher.test() : nil }
}

extension SigningKeyCipher {
    /// Writes a signing key file.
    ///
    /// - Parameter byte: Each of its 32 bytes.
    static func testFile(in directory: TemporaryDirectory, byte: UInt8 = 7) throws -> String {
        let path = directory.path(of: "signing-key-\(byte)")
        let isCreated = FileManager.default.createFile(
            atPath: path, contents: Data(repeating: byte, count: 32), attributes: [.posixPermissions: 0o600])
        try #require(isCreated)
        return path
    }

    /// The encryption with the file of this byte, which exists only while it is read.
    static func test(byte: UInt8 = 7) throws -> SigningKeyCipher {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        return try SigningKeyCipher(path: testFile(in: directory, byte: byte))
    }
}
