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
    private static func store(_ database: any SQLDatabase, _ cipher: SigningKeyCipher?)
        -> SigningKeyStore
    {
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
        let again = try await Self.store(database, cipher).keys(signing: algorithm)
        #expect(again.published(at: again.readAt).map(\.kid) == [row.kid])
        #expect("\(cipher)".hasPrefix("‹signing key file "))
    }

    @Test func `a wrong key file, and the keys of exchanged rows, are refused`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = try await TestDatabase.open()
            let path = try IdentityProcess.signingKeyFile(in: directory)
            let store = Self.store(database, try SigningKeyCipher(path: path))
            try await store.prepare(.es256)
            _ = try await store.rotate(discarding: false)
            let rows = try await Self.rows(database)
            try #require(rows.count == 2)

            let other = try IdentityProcess.signingKeyFile(in: directory, byte: 8)
            let wrong = Self.store(database, try SigningKeyCipher(path: other))
            try await expectRefusal(Self.wrongFile(other, rows[0].kid), by: wrong)
            await #expect(throws: ConfigurationError.self) {
                try await wrong.rotate(discarding: false)
            }
            #expect(try await Self.rows(database).count == 2)

            try await database.write { database in
                for (row, from) in [(rows[0], rows[1]), (rows[1], rows[0])] {
                    try database.execute(
                        "UPDATE signing_key SET private_key = \(from.privateKey) WHERE kid = \(row.kid)"
                    )
                }
            }
            try await expectRefusal(Self.wrongFile(path, rows[0].kid), by: store)
            let error = await #expect(throws: ConfigurationError.self) {
                try await store.keys(signing: .es256)
            }
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

    private static let plain =
        "the database contains a signing key without encryption, and there is a signing key file. If a server without the file "
        + "created it in a SQLite file, run: latchkey-identity signing-keys encrypt. Otherwise find out who added it, then "
        + "replace all keys with: latchkey-identity signing-keys rotate --discard"

    /// A row as a writer of the database can insert it, without the key file.
    private static func plant(in database: any SQLDatabase) async throws {
        let planted = try StoredSigningKey(
            SigningKey(.es256), .es256, cipher: nil, createdAt: 1,
            signsFrom: database.clock.timestamp)
        try await database.write { try planted.insert(in: $0) }
    }

    @Test(arguments: [false, true])
    func `a key file requires that each key is encrypted`(isOnlyKey: Bool) async throws {
        let database = try await TestDatabase.open()
        let store = Self.store(database, try .test())
        try await store.prepare(.es256)
        if isOnlyKey { try await database.write { try $0.execute("DELETE FROM signing_key") } }
        try await Self.plant(in: database)
        try await expectRefusal(Self.plain, by: store)
        for use in [
            { _ = try await store.keys(signing: .es256) },
            { _ = try await store.rotate(discarding: false) },
            { try await store.check() },
        ] as [@Sendable () async throws -> Void] {
            let error = await #expect(throws: ConfigurationError.self) { try await use() }
            #expect(error?.description == Self.plain)
        }
        _ = try await store.rotate(discarding: true)
        try await store.prepare(.es256)
        #expect(try await Self.rows(database).map(\.isEncrypted) == [true])
    }

    @Test func `a key in PEM of a row of the database is not used`() async throws {
        let database = try await TestDatabase.open()
        let planted = P256.Signing.PrivateKey()
        let value = Data(planted.pemRepresentation.utf8)
        try await database.write {
            try $0.execute(
                "INSERT INTO secret (name, value) VALUES ('id token key ES256', \(value))")
        }
        try await Self.store(database, TestDatabase.cipher()).prepare(.es256)
        let kid = Base64URL.encode(
            MessageDigest(sha256: planted.publicKey.derRepresentation).bytes.prefix(16))
        let kids = try await Self.rows(database).map(\.kid)
        #expect(kids.count == 1 && !kids.contains(kid))
    }

    @Test func `a command encrypts the keys of a SQLite file that has none`() async throws {
        let database = try IdentityDatabase.open(path: nil)
        let name = AttestationServices.issuerKeys[0]
        let issuer = Data(#"{"private_key":"a private key"}"#.utf8)
        func value(_ cipher: SigningKeyCipher?) async throws -> Data {
            try await SecretStore(database: database, cipher: cipher).signingKey(name) { issuer }
        }
        let plain = Self.store(database, nil)
        try await plain.prepare(.es256)
        _ = try await plain.rotate(discarding: false)
        #expect(try await value(nil) == issuer)
        let before = try await Self.rows(database)
        #expect(before.count == 2 && before.allSatisfy { !$0.isEncrypted })
        let cipher = try SigningKeyCipher.test()
        let store = Self.store(database, cipher)
        try await expectRefusal(Self.plain, by: store)

        #expect(try await store.encrypt().allSatisfy(\.encrypted))
        try await store.prepare(.es256)
        let after = try await Self.rows(database)
        #expect(after.map(\.kid) == before.map(\.kid) && after.allSatisfy(\.isEncrypted))
        let opened = try after.map { try $0.key(cipher).kid }
        #expect(opened == before.map(\.kid))
        #expect(try await value(cipher) == issuer)
        await #expect(throws: ConfigurationError.self) { try await value(nil) }

        let again = await #expect(throws: ConfigurationError.self) { try await store.encrypt() }
        #expect(
            again?.description
                == "the database contains encrypted signing keys. Start the server with the signing key file "
                + "that encrypted them.")
        let missing = await #expect(throws: ConfigurationError.self) { try await plain.encrypt() }
        #expect(
            missing?.description.hasPrefix(
                "signing-keys encrypt needs a SQLite file and a signing key file") == true)
    }

    @Test func `without a key file, discarding does not replace encrypted keys`() async throws {
        let database = try IdentityDatabase.open(path: nil)
        try await Self.store(database, .test()).prepare(.es256)
        let before = try await Self.rows(database)
        for discarding in [false, true] {
            let error = await #expect(throws: ConfigurationError.self) {
                try await Self.store(database, nil).rotate(discarding: discarding)
            }
            #expect(error?.description == SigningKeyCipher.missing.description)
        }
        #expect(try await Self.rows(database).map(\.privateKey) == before.map(\.privateKey))
    }

    @Test(arguments: ["created_at", "signs_from", "algorithm"])
    func `a changed time or algorithm of a key is refused`(column: String) async throws {
        let database = try await TestDatabase.open()
        let (path, directory) = try Self.keyFile()
        defer { withExtendedLifetime(directory) {} }
        let store = Self.store(database, try SigningKeyCipher(path: path))
        try await store.prepare(.es256)
        let kid = try #require(try await Self.rows(database).first?.kid)
        try await database.write { database in
            switch column {
            case "created_at":
                try database.execute("UPDATE signing_key SET created_at = created_at - 1")
            case "signs_from":
                try database.execute("UPDATE signing_key SET signs_from = signs_from + 1")
            default: try database.execute("UPDATE signing_key SET algorithm = 'RS256'")
            }
        }
        try await expectRefusal(Self.wrongFile(path, kid), by: store)
    }

    private static func keyFile() throws -> (path: String, directory: TemporaryDirectory) {
        let directory = try TemporaryDirectory()
        return (try IdentityProcess.signingKeyFile(in: directory), directory)
    }

    @Test func `the keys that certify attestation keys are encrypted too`() async throws {
        let database = try await TestDatabase.open()
        let name = AttestationServices.issuerKeys[0]
        let key = Data(#"{"private_key":"a private key"}"#.utf8)
        func value(_ cipher: SigningKeyCipher?) async throws -> Data {
            try await SecretStore(database: database, cipher: cipher).signingKey(name) { key }
        }
        func stored() async throws -> Data? {
            try await database.read {
                try $0.row("SELECT value FROM secret WHERE name = \(name)")?.blob("value")
            }
        }
        let cipher = try SigningKeyCipher.test()
        for _ in 1...2 { #expect(try await value(cipher) == key) }
        let sealed = try #require(try await stored())
        #expect(
            SigningKeyCipher.isEncrypted(sealed)
                && sealed.range(of: Data("a private key".utf8)) == nil)
        for wrong in [nil, try SigningKeyCipher.test(byte: 8)] {
            await #expect(throws: ConfigurationError.self) { try await value(wrong) }
        }
        #expect(try await stored() == sealed)

        // A writer of the database replaces it.
        try await database.write {
            try $0.execute("UPDATE secret SET value = \(key) WHERE name = \(name)")
        }
        let error = await #expect(throws: ConfigurationError.self) { try await value(cipher) }
        #expect(error?.description == Self.plain)
        try await expectRefusal(Self.plain, by: Self.store(database, cipher))
        #expect(try await stored() == key)
    }

    @Test func `discarding replaces the keys that certify attestation keys`() async throws {
        let database = try await TestDatabase.open()
        let cipher = try SigningKeyCipher.test()
        let store = Self.store(database, cipher)
        try await store.prepare(.es256)
        for name in AttestationServices.issuerKeys {
            _ = try await SecretStore(database: database, cipher: cipher).signingKey(name) {
                Data("old".utf8)
            }
        }
        _ = try await store.rotate(discarding: true)
        for name in AttestationServices.issuerKeys {
            let key = try await SecretStore(database: database, cipher: cipher).signingKey(name) {
                Data("new".utf8)
            }
            #expect(key == Data("new".utf8))
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

    @Test func `the program takes the key file from its option or its environment`() async throws {
        try await TemporaryDirectory.withDirectory { directory in
            let database = directory.path(of: "identity.sqlite")
            let file = try IdentityProcess.signingKeyFile(in: directory)
            let server = try await IdentityProcess([
                "--demo", "--database", database, "--signing-key-file", file,
            ])
            #expect(await server.stop() == 0)
            let program = try IdentityProcess.program
            let listed = try await SystemProgram(program).result(of: [
                "signing-keys", "list", "--database", database,
            ])
            #expect(
                listed.output.contains(#""encrypted":true"#)
                    && listed.output.contains(#""state":"current""#))
            let other = try IdentityProcess.signingKeyFile(in: directory, byte: 8)
            for (file, status) in [(file, 0), (other, 1)] as [(String, Int32)] {
                let checked = try await SystemProgram(program).result(
                    of: ["check", "--database", database, "--signing-key-file", file])
                #expect(checked.status == status, "\(checked.errors)")
                #expect(
                    checked.errors.contains("does not decrypt the signing key") == (status == 1))
            }
            let refused = try await SystemProgram(program).result(
                of: ["serve", "--demo", "--database", database, "--port", "0"])
            #expect(refused.status == 1)
            #expect(
                refused.errors.contains(
                    "Could not start the server: the signing keys in the database are encrypted"),
                "\(refused.errors)")
            let rotated = try await SystemProgram(
                program, environment: [SigningKeyOption.variable: file]
            ).result(
                of: ["signing-keys", "rotate", "--database", database])
            #expect(rotated.output.contains(#""state":"next""#), "\(rotated.errors)")
        }
    }
}
