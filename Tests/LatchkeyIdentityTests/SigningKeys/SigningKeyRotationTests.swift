import FoundationEssentials
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
            database: server.services.database, clock: server.time.clock, cipher: try TestDatabase.cipher())
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
    private static func instance(_ server: TestServer) async throws -> IdentityServices {
        try await IdentityServices(
            TestServer.configuration, database: server.services.database,
            hasher: PasswordHasher(cost: .init(logRounds: 4, blockSize: 1, parallelism: 1)), clock: server.time.clock,
            signingKeyCipher: TestDatabase.cipher())
    }

    /// The ID of the key with which a server signs.
    private static func signer(of services: IdentityServices) async throws -> String {
        let token = try await services.signer.sign(
            IDToken(
                issuer: "http://127.0.0.1", audience: ["app"], subject: "s", issuedAt: 1, expiresAt: 2, authTime: 1,
                sessionID: "i", amr: nil, nonce: nil, isAnonymous: false, isVerified: false, canReauthenticate: true))
        return try signer(of: token)
    }

    @Test func `a new key is published before it signs, and the old one until its tokens have expired`() async throws {
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
            #expect(try await store.lines().map(\.kid) == [keys[1]], "deleted from the database")
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

    @Test func `discarding replaces all keys at once, also without the old key file`() async throws {
        try await TestServer.run { server in
            let old = try #require(try await server.login().id)
            let store = SigningKeyStore(
                database: server.services.database, clock: server.time.clock, cipher: try .test(byte: 9))
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
}
