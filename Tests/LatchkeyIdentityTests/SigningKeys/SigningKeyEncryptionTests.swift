import Crypto
import Foundation
import Latchkey
import LatchkeyRelyingParty
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The signing keys in the database, on both storages (`LATCHKEY_TEST_DATABASE`).
@Suite("Signing keys at rest") struct SigningKeyEncryptionTests {
    private static func store(_ database: any SQLDatabase, _ cipher: SigningKeyCipher?) -> SigningKeyStore {
        SigningKeyStore(database: database, clock: database.clock, cipher: cipher)
    }

    private static func rows(_ database: any SQLDatabase) async throws -> [StoredSigningKey] {
        try await database.read { try StoredSigningKey.all(in: $0) }
    }

    /// Expects a refusal with exactly this text, and unchanged rows.
    private func expectRefusal(
        _ text: String, by store: SigningKeyStore, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let before = try await Self.rows(store.database)
        let error = await #expect(throws: ConfigurationError.self, sourceLocation: sourceLocation) {
            try await store.prepare(.es256)
        }
        #expect(error?.description == text, sourceLocation: sourceLocation)
        let after = try await Self.rows(store.database)
        #expect(after.map(\.kid) == before.map(\.kid), sourceLocation: sourceLocation)
        #expect(after.map(\.privateKey) == before.map(\.privateKey), sourceLocation: sourceLocation)
    }

    private static func wrongFile(_ path: String, _ kid: String) -> String {
        "the signing key file \(path) does not decrypt the signing key \(kid). Name the file that encrypted the keys. If it is "
            + "lost, or if the rows were changed, replace all keys with: latchkey-identity signing-keys rotate --discard"
    }

    @Test(arguments: SigningKey.Algorithm.allCases)
    func `the database contains no private key`(algorithm: SigningKey.Algorithm) async throws {
        let database = try await TestDatabase.open()
        let cipher = try SigningKeyCipher.test()
        try await Self.store(database, cipher).prepare(algorithm)
        let row = try #require(try await Self.rows(database).first)
        #expect(row.isEncrypted && row.algorithm == algorithm)
        let der = try row.key(cipher).der.withUnsafeBytes { Data($0) }
        for start in stride(from: 0, to: der.count - 16, by: 16) {
            #expect(row.privateKey.range(of: der[start..<start + 16]) == nil)
        }
        let again = try await Self.store(database, cipher).keys(of: algorithm)
        #expect(again.keys.map(\.kid) == [row.kid])
        #expect("\(cipher)".hasPrefix("‹signing key file "))
    }

    @Test func `a wrong key file, and the keys of exchanged rows, are refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = try await TestDatabase.open()
            let path = try SigningKeyCipher.testFile(in: directory)
            let store = Self.store(database, try SigningKeyCipher(path: path))
            try await store.prepare(.es256)
            _ = try await store.rotate(discarding: false)
            let rows = try await Self.rows(database)
            try #require(rows.count == 2)

            let other = try SigningKeyCipher.testFile(in: directory, byte: 8)
            let wrong = Self.store(database, try SigningKeyCipher(path: other))
            try await expectRefusal(Self.wrongFile(other, rows[0].kid), by: wrong)
            await #expect(throws: ConfigurationError.self) { try await wrong.rotate(discarding: false) }
            #expect(try await Self.rows(database).count == 2)

            try await database.write { database in
                for (row, from) in [(rows[0], rows[1]), (rows[1], rows[0])] {
                    try database.execute(
                        "UPDATE signing_key SET private_key = \(from.privateKey) WHERE kid = \(row.kid)")
                }
            }
            try await expectRefusal(Self.wrongFile(path, rows[0].kid), by: store)
            let error = await #expect(throws: ConfigurationError.self) { try await store.keys(of: .es256) }
            #expect(error?.description == Self.wrongFile(path, rows[0].kid))
        }
    }

    @Test func `encrypted keys need their file`() async throws {
        let database = try IdentityDatabase.open(path: nil)
        try await Self.store(database, .test()).prepare(.es256)
        try await expectRefusal(
            "the signing keys in the database are encrypted, and there is no signing key file. Name the file that encrypted "
                + "them with --signing-key-file FILE.", by: Self.store(database, nil))
    }

    @Test(.enabled(if: PostgreSQLServer.isInstalled, "needs the package postgresql"))
    func `PostgreSQL needs a key file`() async throws {
        let database = try await IdentityDatabase.open(location: PostgreSQLServer.shared.database())
        try await expectRefusal(
            "signing keys in a PostgreSQL database must be encrypted, and there is no signing key file. Create a file of 32 "
                + "random bytes with mode 600, and name it with --signing-key-file FILE.",
            by: Self.store(database, nil))
        #expect(try await Self.rows(database).isEmpty)
    }

    @Test func `a key file encrypts the keys of a SQLite file that has none`() async throws {
        let database = try IdentityDatabase.open(path: nil)
        let plain = Self.store(database, nil)
        try await plain.prepare(.es256)
        _ = try await plain.rotate(discarding: false)
        let before = try await Self.rows(database)
        #expect(before.count == 2 && before.allSatisfy { !$0.isEncrypted })
        let cipher = try SigningKeyCipher.test()
        try await Self.store(database, cipher).prepare(.es256)
        let after = try await Self.rows(database)
        #expect(after.map(\.kid) == before.map(\.kid) && after.allSatisfy(\.isEncrypted))
        let opened = try after.map { try $0.key(cipher).kid }
        #expect(opened == before.map(\.kid))
    }

    @Test func `a key without encryption next to encrypted ones is refused`() async throws {
        let database = try await TestDatabase.open()
        let store = Self.store(database, try .test())
        try await store.prepare(.es256)
        let planted = try StoredSigningKey(
            SigningKey(.es256), .es256, cipher: nil, createdAt: 1, signsFrom: database.clock.timestamp)
        try await database.write { try planted.insert(in: $0) }
        let text =
            "the database contains signing keys without encryption that no server with this signing key file stored. Find out "
            + "who added them, then replace all keys with: latchkey-identity signing-keys rotate --discard"
        try await expectRefusal(text, by: store)
        let error = await #expect(throws: ConfigurationError.self) { try await store.keys(of: .es256) }
        #expect(error?.description == text)
    }

    @Test func `the keys that certify attestation keys are encrypted too`() async throws {
        let database = try IdentityDatabase.open(path: nil)
        let name = AttestationServices.issuerKeys[0]
        let key = Data(#"{"private_key":"a private key"}"#.utf8)
        func value(_ cipher: SigningKeyCipher?) async throws -> Data {
            try await SecretStore(database: database, cipher: cipher).signingKey(name) { key }
        }
        func stored() async throws -> Data? {
            try await database.read { try $0.row("SELECT value FROM secret WHERE name = \(name)")?.blob("value") }
        }
        let cipher = try SigningKeyCipher.test()
        #expect(try await value(nil) == key)
        #expect(try await stored() == key)
        // The first start with a key file encrypts the key.
        for _ in 1...2 { #expect(try await value(cipher) == key) }
        let sealed = try #require(try await stored())
        #expect(SigningKeyCipher.isEncrypted(sealed) && sealed.range(of: Data("a private key".utf8)) == nil)
        let other = try SigningKeyCipher.test(byte: 8)
        for wrong in [nil, other] {
            await #expect(throws: ConfigurationError.self) { try await value(wrong) }
        }
        #expect(try await stored() == sealed)

        // A lost key file.
        try await Self.store(database, cipher).prepare(.es256)
        _ = try await Self.store(database, cipher).rotate(discarding: true)
        #expect(try await stored() == sealed, "this key file decrypts it")
        _ = try await Self.store(database, other).rotate(discarding: true)
        #expect(try await stored() == nil)
        #expect(try await value(other) == key)
    }

    @Test func `the key of an earlier version is kept, in the new table`() async throws {
        let database = try await TestDatabase.open()
        let old = P256.Signing.PrivateKey()
        let value = Data(old.pemRepresentation.utf8)
        try await database.write {
            try $0.execute("INSERT INTO secret (name, value) VALUES ('id token key ES256', \(value))")
        }
        let cipher = try TestDatabase.cipher()
        for _ in 1...2 { try await Self.store(database, cipher).prepare(.es256) }
        let row = try #require(try await Self.rows(database).first)
        let expected = Base64URL.encode(MessageDigest(sha256: old.publicKey.derRepresentation).bytes.prefix(16))
        let opened = try row.key(cipher).kid
        #expect(row.kid == expected && opened == expected)
        #expect(try await Self.rows(database).count == 1)
        let secrets = try await database.read {
            try $0.rows("SELECT name FROM secret WHERE name LIKE 'id token%'").count
        }
        #expect(secrets == 0)
    }

    @Test(arguments: [
        (32, 0o604, "cannot be used: its group or others have rights to it. Name a file that you own, with mode 600."),
        (32, 0o620, "cannot be used: its group or others have rights to it. Name a file that you own, with mode 600."),
        (4_097, 0o600, "cannot be used: it has more than 4096 bytes. Name a file that you own, with mode 600."),
        (31, 0o600, "has 31 bytes, fewer than 32. Create one with: (umask 077; head -c 32 /dev/urandom >FILE)"),
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

    @Test func `the program takes the key file from its option or its environment`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = directory.path(of: "identity.sqlite")
            let file = try SigningKeyCipher.testFile(in: directory)
            let server = try await IdentityProcess(["--demo", "--database", database, "--signing-key-file", file])
            #expect(await server.stop() == 0)
            let program = try IdentityProcess.program
            let listed = try await SystemProgram(program).result(of: ["signing-keys", "list", "--database", database])
            #expect(listed.output.contains(#""encrypted":true"#) && listed.output.contains(#""state":"current""#))
            let refused = try await SystemProgram(program).result(
                of: ["serve", "--demo", "--database", database, "--port", "0"])
            #expect(refused.status == 1)
            #expect(
                refused.errors.contains("Could not start the server: the signing keys in the database are encrypted"),
                "\(refused.errors)")
            let rotated = try await SystemProgram(program, environment: [SigningKeyOption.variable: file]).result(
                of: ["signing-keys", "rotate", "--database", database])
            #expect(rotated.output.contains(#""state":"next""#), "\(rotated.errors)")
        }
    }
}
