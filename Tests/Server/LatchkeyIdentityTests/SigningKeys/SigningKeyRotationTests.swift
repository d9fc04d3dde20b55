import FoundationEssentials
import HTTPTypes
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@testable import latchkey_identity

/// The replacement of signing keys while servers run, on both storages (`LATCHKEY_TEST_DATABASE`).
@Suite("Rotation of signing keys") struct SigningKeyRotationTests {
    private static func store(_ server: TestServer) throws -> SigningKeyStore {
        SigningKeyStore(
            database: server.services.database, clock: server.time.clock,
            cipher: try TestDatabase.cipher())
    }

    /// The key IDs in the key set, as clients read it.
    private static func published(_ server: TestServer) async throws -> [String] {
        let keys = try await server.send(.get, "/oauth2/jwks").success()["keys"]?.array
        return try #require(keys).compactMap { $0["kid"]?.string }
    }

    /// The ID of the key that signed a token.
    private static func signer(of token: String) throws -> String {
        let header = try #require(Base64URL.decode(token.prefix { $0 != "." }))
        let members = try JSONDecoder().decode(JSONValue.self, from: header)
        return try #require(members["kid"]?.string)
    }

    /// Another server on the same database.
    private static func instance(
        _ server: TestServer, _ configure: (inout ServerConfiguration) -> Void = { _ in }
    ) async throws -> IdentityServices {
        var configuration = TestServer.configuration
        configure(&configuration)
        return try await IdentityServices(
            configuration, database: server.services.database,
            hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)),
            clock: server.time.clock,
            signingKeyCipher: TestDatabase.cipher())
    }

    /// The ID of the key with which a server signs.
    private static func signer(of services: IdentityServices) async throws -> String {
        let token = try await services.signer.sign(
            IDToken(
                issuer: "http://127.0.0.1", audience: ["app"], subject: "s", issuedAt: 1,
                expiresAt: 2, authTime: 1,
                sessionID: "i", amr: nil, nonce: nil, isAnonymous: false, isVerified: false,
                canReauthenticate: true))
        return try signer(of: token)
    }

    @Test
    func `a new key is published before it signs, and the old one until its tokens have expired`()
        async throws
    {
        try await TestServer.run { server in
            let store = try Self.store(server)
            let other = try await Self.instance(server)
            let first = try await Self.published(server)
            #expect(first.count == 1)
            let lines = try await store.rotate(discarding: false)
            let keys = lines.map(\.kid)
            #expect(keys.first == first.first && lines.map(\.state) == [.current, .next])

            server.time.advance(by: SigningKeySchedule.serverCache)
            #expect(try await Self.published(server) == keys)
            #expect(try await other.signer.published().compactMap(\.kid) == keys)
            server.time.advance(by: SigningKeySchedule.clientCache - 1)
            let last = try #require(try await server.login().id)
            #expect(try Self.signer(of: last) == keys[0])
            #expect(try await Self.signer(of: other) == keys[0])

            server.time.advance(by: 1)
            let next = try #require(try await server.login().id)
            #expect(try Self.signer(of: next) == keys[1])
            #expect(try await Self.signer(of: other) == keys[1])
            #expect(try await store.lines().map(\.state) == [.retired, .current])

            // The last token of the old key is valid until here.
            server.time.advance(by: Double(IDToken.lifetime))
            #expect(try await Self.published(server) == keys)
            #expect(try await server.services.signer.verify(last)?.subject == server.alice.id)
            #expect(try await other.signer.verify(last)?.subject == server.alice.id)

            server.time.advance(by: SigningKeySchedule.retirement - Double(IDToken.lifetime))
            #expect(try await Self.published(server) == [keys[1]])
            #expect(try await other.signer.published().compactMap(\.kid) == [keys[1]])
            #expect(try await store.lines().map(\.state) == [.unpublished, .current])
            // An expired token is still a hint.
            #expect(try await server.services.signer.verify(last)?.subject == server.alice.id)

            server.time.advance(by: SigningKeySchedule.hints)
            #expect(try await server.services.signer.verify(last) == nil)
            #expect(try await store.lines().map(\.state) == [.expired, .current])
            try await store.prepare(.es256)
            #expect(try await store.lines().map(\.kid) == [keys[1]], "a start deletes it")
        }
    }

    @Test func `a key that signs cannot be removed; a next or retired key can`() async throws {
        try await TestServer.run { server in
            let store = try Self.store(server)
            let first = try #require(try await Self.published(server).first)
            #expect(try await store.remove(first) == .refused)
            #expect(try await store.remove("unknown") == .unknown)
            let next = try #require(try await store.rotate(discarding: false).last?.kid)
            #expect(try await store.remove(next) == .removed)
            #expect(try await store.lines().map(\.kid) == [first])

            let second = try #require(try await store.rotate(discarding: false).last?.kid)
            // Servers that do not know the removal yet would sign with it.
            server.time.advance(by: SigningKeySchedule.publication - 1)
            #expect(try await store.remove(second) == .refused)
            server.time.advance(by: 1)
            #expect(try await store.remove(second) == .refused)
            #expect(try await store.remove(first) == .removed)
            #expect(try await Self.published(server) == [second])
        }
    }

    @Test func `discarding replaces all keys at once, also without the old key file`() async throws
    {
        try await TestServer.run { server in
            let old = try #require(try await server.login().id)
            let store = SigningKeyStore(
                database: server.services.database, clock: server.time.clock,
                cipher: try .test(byte: 9))
            let lines = try await store.rotate(discarding: true)
            #expect(lines.map(\.state) == [.current] && lines.allSatisfy(\.encrypted))
            try await store.prepare(.es256)
            let signer = try await IDTokenSigner(.es256, store: store)
            #expect(try await signer.published().compactMap(\.kid) == lines.map(\.kid))
            #expect(try await signer.verify(old) == nil)
        }
    }

    @Test func `of two rotations at once, each publishes one key`() async throws {
        try await TestServer.run { server in
            let store = try Self.store(server)
            async let one = store.rotate(discarding: false)
            async let two = store.rotate(discarding: false)
            _ = try await (one, two)
            #expect(try await store.lines().map(\.state) == [.current, .next, .next])
        }
    }

    @Test func `removing a retired key does not publish an older key again`() async throws {
        try await TestServer.run { server in
            let store = try Self.store(server)
            var keys = try await Self.published(server)
            for _ in 1...2 {
                keys.append(try #require(try await store.rotate(discarding: false).last?.kid))
                server.time.advance(by: SigningKeySchedule.publication)
            }
            #expect(try await store.lines().map(\.state) == [.unpublished, .retired, .current])
            #expect(try await store.remove(keys[1]) == .removed)
            server.time.advance(by: SigningKeySchedule.serverCache)
            #expect(try await Self.published(server) == [keys[2]])
            #expect(try await store.lines().map(\.kid) == [keys[2]])
        }
    }

    @Test func `after a change of the algorithm, tokens of the earlier one are valid`() async throws
    {
        try await TestServer.run { server in
            let old = try #require(try await server.login().id)
            let first = try await Self.published(server)
            let changed = try await Self.instance(server) { $0.idTokenSigningAlg = .rs256 }
            let kid = try await Self.signer(of: changed)
            let published = try await changed.signer.published()
            #expect(
                published.compactMap(\.kid) == first + [kid]
                    && published.map(\.kty) == ["EC", "RSA"])
            #expect(try await changed.signer.verify(old)?.subject == server.alice.id)

            // The instances with the earlier configuration publish the new key too, and sign with
            // the earlier algorithm.
            server.time.advance(by: SigningKeySchedule.serverCache)
            #expect(try await Self.published(server) == first + [kid])
            let token = try #require(try await server.login().id)
            #expect(try Self.signer(of: token) == first.first)
        }
    }

    @Test func `a server without usable keys is not ready`() async throws {
        try await TestServer.run { server in
            let services = server.services
            #expect(await ManagementServer.isReady(services.database, services.signer))
            try await services.database.write { try $0.execute("DELETE FROM signing_key") }
            server.time.advance(by: SigningKeySchedule.serverCache)
            #expect(await !ManagementServer.isReady(services.database, services.signer))
            try await Self.store(server).prepare(.es256)
            #expect(await ManagementServer.isReady(services.database, services.signer))
        }
    }

    @Test func `discarding does not read the rows`() async throws {
        try await TestServer.run { server in
            let store = try Self.store(server)
            let damaged = Data([0x30])
            try await server.services.database.write {
                try $0.execute(
                    """
                    INSERT INTO signing_key (kid, algorithm, private_key, created_at, signs_from)
                    VALUES ('k', 'XS1', \(damaged), 1, 1)
                    """)
            }
            let error = await #expect(throws: ConfigurationError.self) {
                try await store.rotate(discarding: false)
            }
            #expect(
                error?.description.hasPrefix("the signing key k is for the unknown algorithm XS1")
                    == true)
            #expect(try await store.rotate(discarding: true).map(\.state) == [.current])
        }
    }

    @Test func `each change of a signing key is in the audit log`() async throws {
        try await TestServer.run { server in
            let store = try Self.store(server)
            let old = try #require(try await Self.published(server).first)
            let next = try #require(try await store.rotate(discarding: false).last?.kid)
            #expect(try await store.remove(next) == .removed)
            let new = try #require(try await store.rotate(discarding: true).first?.kid)
            try await server.services.database.write {
                try $0.execute("UPDATE signing_key SET signs_from = 1")
            }
            let entries = try await AuditLog(database: server.services.database).entries(
                after: 3, limit: 10)
            #expect(
                entries.map { [$0.event, $0.subject] } == [
                    ["signingKey.added", next], ["signingKey.removed", next],
                    ["signingKey.removed", old],
                    ["signingKey.added", new], ["signingKey.changed", new],
                ])
        }
    }
}
