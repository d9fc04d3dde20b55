import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The keys that sign ID tokens, on both storages (`LATCHKEY_TEST_DATABASE`).
@Suite("Signing keys") struct SigningKeyTests {
    private static let name = IDTokenSigner.name

    private static func signer(
        _ database: any SQLDatabase, _ cipher: SigningKeyCipher?
    ) async throws -> IDTokenSigner {
        try await IDTokenSigner(SecretStore(database: database, cipher: cipher))
    }

    private static func stored(_ name: String, in database: any SQLDatabase) async throws -> Data? {
        try await database.read {
            try $0.row("SELECT value FROM secret WHERE name = \(name)")?.blob("value")
        }
    }

    /// Expects a refusal with exactly this text, and an unchanged row.
    private static func expectRefusal(
        _ text: String, _ database: any SQLDatabase, _ cipher: SigningKeyCipher?,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let before = try await stored(name, in: database)
        let error = await #expect(throws: ConfigurationError.self, sourceLocation: sourceLocation) {
            _ = try await signer(database, cipher)
        }
        #expect(error?.description == text, sourceLocation: sourceLocation)
        #expect(try await stored(name, in: database) == before, sourceLocation: sourceLocation)
    }

    @Test func `all servers have the same key, and the database contains no private key`()
        async throws
    {
        let database = try await TestDatabase.open()
        let cipher = try SigningKeyCipher.test()
        let first = try await Self.signer(database, cipher)
        let second = try await Self.signer(database, cipher)
        #expect(first.published.kid == second.published.kid)
        let token = IDToken(
            issuer: "a", audience: ["b"], subject: "c", issuedAt: 1, expiresAt: 2, authTime: 1,
            sessionID: "d", amr: nil, nonce: nil)
        let signed = try first.sign(token)
        #expect(second.verify(signed)?.subject == "c")
        #expect(second.verify(signed + "x") == nil)
        let sealed = try #require(try await Self.stored(Self.name, in: database))
        let key = try await SecretStore(database: database, cipher: cipher)
            .privateKey(Self.name) { IDTokenSigner.newKey() }
        let der = key.withUnsafeBytes { Data($0) }
        for start in stride(from: 0, to: der.count - 16, by: 16) {
            #expect(sealed.range(of: der[start..<start + 16]) == nil)
        }
        #expect("\(cipher)".hasPrefix("‹signing key file "))
    }

    @Test func `a wrong key file, and the key of another row, are refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = try await TestDatabase.open()
            let path = try IdentityProcess.signingKeyFile(in: directory)
            _ = try await Self.signer(database, SigningKeyCipher(path: path))
            let other = try IdentityProcess.signingKeyFile(in: directory, byte: 8)
            func refusal(_ path: String) -> String {
                "the signing key file \(path) does not decrypt the \(Self.name). Name the file that encrypted it. If it is "
                    + "lost, delete this row of the table secret: the tokens and certificates of the key become invalid."
            }
            try await Self.expectRefusal(refusal(other), database, SigningKeyCipher(path: other))
            try await database.write { database in
                let foreign = try SigningKeyCipher.seal(
                    IDTokenSigner.newKey(), "another name", with: SigningKeyCipher(path: path))
                try database.execute("UPDATE secret SET value = \(foreign)")
            }
            try await Self.expectRefusal(refusal(path), database, SigningKeyCipher(path: path))
        }
    }

    @Test func `encrypted keys need their file`() async throws {
        let database = try await IdentityDatabase.open(IdentityDatabase.memory, creating: true)
        _ = try await Self.signer(database, .test())
        try await Self.expectRefusal(
            "the signing keys in the database are encrypted, and there is no signing key file. Name the file that encrypted "
                + "them with --signing-key-file FILE.", database, nil)
    }

    @Test(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
    func `PostgreSQL needs a key file`() async throws {
        let database = try await TestDatabase.open(PostgreSQLServer.shared.database())
        try await Self.expectRefusal(
            "signing keys in a PostgreSQL database must be encrypted, and there is no signing key file. Create a file of 32 "
                + "random bytes with mode 600, and name it with --signing-key-file FILE.",
            database, nil)
    }

    /// A writer of the database can insert one, without the key file.
    @Test func `a key file requires that each key is encrypted`() async throws {
        let database = try await TestDatabase.open()
        try await database.write { database in
            let planted = try SigningKeyCipher.seal(IDTokenSigner.newKey(), Self.name, with: nil)
            try database.execute(
                "INSERT INTO secret (name, value) VALUES (\(Self.name), \(planted))")
        }
        try await Self.expectRefusal(
            "the database contains the \(Self.name) without encryption, and there is a signing key file. Start the server "
                + "without the file, or delete this row of the table secret: the tokens and certificates of the key become "
                + "invalid.",
            database, .test())
    }

    @Test func `the key of the locker's shares is encrypted, and no other one opens them`()
        async throws
    {
        let database = try await TestDatabase.open()
        @Sendable func services(_ byte: UInt8) async throws -> IdentityServices {
            try await IdentityServices(
                TestServer.configuration, database: database,
                hasher: PasswordHasher(logRounds: 4),
                signingKeyCipher: .test(byte: byte))
        }
        _ = try await services(7)
        _ = try await services(7)
        let stored = try #require(try await Self.stored("locker shares", in: database))
        // Version, nonce, 32 bytes, tag.
        #expect(stored.first == 1 && stored.count == 1 + 12 + 32 + 16)
        try await database.write { try $0.execute("DELETE FROM secret WHERE name LIKE 'signing%'") }
        let error = await #expect(throws: ConfigurationError.self) { _ = try await services(8) }
        #expect(
            error?.description.contains("does not decrypt the locker shares. Name the file") == true
                && error?.description.contains("no locker opens its secrets again") == true,
            "\(error?.description ?? "")")
    }

    @Test func `a damaged key is reported with its row`() async throws {
        let database = try await TestDatabase.open()
        let cipher = try SigningKeyCipher.test()
        let damaged = try SigningKeyCipher.seal(SecretBytes([1, 2, 3]), Self.name, with: cipher)
        try await database.write {
            try $0.execute("INSERT INTO secret (name, value) VALUES (\(Self.name), \(damaged))")
        }
        try await Self.expectRefusal(
            "the row ‘\(Self.name)’ of the table secret is damaged. Restore it from a backup, or delete it: the tokens and "
                + "certificates of the key become invalid.", database, cipher)
    }

    @Test func `the keys that certify attestation keys are encrypted too`() async throws {
        try await TestServer.runAttested { server, _ in
            for name in ["Latchkey attestation CA", "Latchkey attestation CA (simulated)"] {
                let value = try #require(
                    try await Self.stored(name, in: server.services.database))
                #expect((value.first == 1) == PostgreSQLServer.isSelected)
            }
        }
    }

    @Test(arguments: [
        (
            32, 0o604,
            "cannot be used: its group or others have rights to it. Name a file that you own, with mode 600."
        ),
        (
            32, 0o620,
            "cannot be used: its group or others have rights to it. Name a file that you own, with mode 600."
        ),
        (
            4_097, 0o600,
            "cannot be used: it has more than 4096 bytes. Name a file that you own, with mode 600."
        ),
        (
            31, 0o600,
            "has 31 bytes, fewer than 32. Create one with: (umask 077; head -c 32 /dev/urandom >FILE)"
        ),
    ])
    func `a key file that others can read, or of a wrong length, is refused`(
        count: Int, mode: Int, cause: String
    ) throws {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let path = directory.path(of: "key")
        try #require(FileManager.default.createFile(atPath: path, contents: Data(count: count)))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        let error = #expect(throws: ConfigurationError.self) { try SigningKeyCipher(path: path) }
        #expect(error?.description == "the signing key file \(path) \(cause)")
    }

    @Test func `the program takes the key file from its option`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = directory.path(of: "identity.sqlite")
            let file = try IdentityProcess.signingKeyFile(in: directory)
            let server = try await IdentityProcess([
                "--demo", "--database", database, "--signing-key-file", file,
            ])
            #expect(await server.stop() == 0)
            let refused = try await SystemProgram(IdentityProcess.program).result(
                of: ["serve", "--demo", "--database", database, "--port", "0"])
            #expect(refused.status == 2)
            #expect(
                refused.errors.contains(
                    "Could not start the server: the signing keys in the database are encrypted"),
                "\(refused.errors)")
        }
    }
}
