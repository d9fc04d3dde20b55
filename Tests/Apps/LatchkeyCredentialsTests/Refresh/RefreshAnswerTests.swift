import Foundation
import GRDB
import Latchkey
import LatchkeyJOSE
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

@testable import LatchkeyCredentials

/// What becomes of a refresh token that the server has given, when something fails after that: the
/// server takes the old one no more.
@Suite(.softwareTPM)
struct RefreshAnswerTests {
    @Test func `another user's token is not used, and the next refresh uses its refresh token`()
        async throws
    {
        let bench = try Bench()
        let token = try bench.provider.signIn()
        let credential = try await bench.start().store(token)
        bench.provider.setSubject("eve")
        for _ in 0..<2 {
            await #expect(throws: credentials(.invalidToken)) { try await credential.refresh() }
            #expect(try await credential.token == token)
        }
        bench.provider.setSubject("jane")
        let restarted = try #require(try await bench.start().credential(id: token.id))
        #expect(try await restarted.refresh().accessToken == "access-4")
        #expect(try await credential.token.refreshToken == "refresh-4")
        #expect(bench.provider.count("/token") == 3)
    }

    @Test
    func
        `a response that can't be checked now is checked by the next refresh, without another request`()
        async throws
    {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let token = try await credential.refresh()
        bench.clock.advance(by: 60)
        bench.provider.use(try Signer(keyID: "key-2"))
        bench.provider.fail("/keys", .noNetwork)
        await #expect(throws: credentials(.network)) { try await credential.refresh() }
        #expect(try await credential.token == token)
        // Much later, in another program.
        bench.clock.advance(by: 1000)
        let restarted = try #require(try await bench.start().credential(id: token.id))
        #expect(try await restarted.refresh().accessToken == "access-3")
        #expect(try await credential.token.refreshToken == "refresh-3")
        #expect(bench.provider.count("/token") == 2)
    }

    @Test func `keys that changed shortly after they were read are read again once`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        _ = try await credential.refresh()
        bench.clock.advance(by: 10)
        bench.provider.use(try Signer(keyID: "key-2"))
        #expect(try await credential.refresh().accessToken == "access-3")
        #expect(bench.provider.count("/keys") == 2)
        #expect(bench.provider.count("/token") == 2)
    }

    @Test func `an app validates the ID token of its own login`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let (store, token) = (credential.store, try await credential.token)
        try await store.validate(token)
        await #expect(throws: credentials(.invalidToken)) {
            try await store.validate(token, nonce: "another login's")
        }
        await #expect(throws: credentials(.invalidToken)) {
            try await store.validate(token, maximumLoginAge: 1)
        }
        bench.clock.advance(by: 301)
        await #expect(throws: credentials(.invalidToken)) { try await store.validate(token) }
    }

    @Test(arguments: [nil, "key-1"])
    func `a key that changed without a new name, or has no name, is read again`(keyID: String?)
        async throws
    {
        let bench = try Bench()
        let client = try await bench.start().store(bench.provider.signIn()).server
        try await client.validate(bench.provider.idToken("jane"), at: bench.clock.now)
        bench.clock.advance(by: 30)
        bench.provider.use(try Signer())
        let header: [String: JSONValue] = ["alg": .string("ES256")].merging(
            keyID.map { ["kid": .string($0)] } ?? [:]
        ) {
            $1
        }
        let claims = try bench.provider.idToken("jane").claims
        try await client.validate(
            bench.provider.signer.sign(claims, header: header), at: bench.clock.now)
        #expect(bench.provider.count("/keys") == 2)
        // A forged signature causes at most one read every 30 seconds.
        let forged = try Signer().sign(claims, header: header)
        for _ in 0..<3 {
            await #expect(throws: credentials(.invalidToken)) {
                try await client.validate(forged, at: bench.clock.now)
            }
        }
        #expect(bench.provider.count("/keys") == 2)
        bench.clock.advance(by: 30)
        await #expect(throws: credentials(.invalidToken)) {
            try await client.validate(forged, at: bench.clock.now)
        }
        #expect(bench.provider.count("/keys") == 3)
    }

    @Test(
        arguments: [
            ["access_token": .null], ["access_token": .string("")], ["token_type": .number(1)],
            ["access_token": .string("a b")], ["id_token": .string("x")],
            ["error": .string("x")],
        ] as [[String: JSONValue]])
    func `the refresh token of an invalid response is used`(members: [String: JSONValue])
        async throws
    {
        let bench = try Bench()
        let token = try bench.provider.signIn()
        let credential = try await bench.start().store(token)
        bench.provider.fail("/token", .answer(members))
        await #expect(throws: credentials(.invalidResponse)) { try await credential.refresh() }
        #expect(try await credential.token == token)
        #expect(try await credential.refresh().accessToken == "access-3")
        #expect(bench.provider.count("/token") == 2)
    }

    @Test func `a token of another login is not used`() async throws {
        let bench = try Bench()
        let token = try bench.provider.signIn(claims: ["nonce": .string("n")])
        let credential = try await bench.start().store(token)
        let other = try bench.provider.idToken("jane", ["nonce": .string("m")])
        bench.provider.fail("/token", .answer(["id_token": .string(other.rawValue)]))
        await #expect(throws: credentials(.invalidToken)) { try await credential.refresh() }
        #expect(try await credential.token == token)
        let same = try bench.provider.idToken("jane", ["nonce": .string("n")])
        bench.provider.fail("/token", .answer(["id_token": .string(same.rawValue)]))
        #expect(try await credential.refresh().idToken == same)
    }

    @Test(arguments: [-7200.0, 7200])
    func `a wrong clock does not prevent a refresh if the server sends its date`(ahead: Double)
        async throws
    {
        let bench = try Bench(.softwareTPM, Provider.Manner(clockOffset: ahead, tellsTime: true))
        let credential = try await bench.start().store(bench.provider.signIn())
        let token = try await credential.refresh()
        #expect(token.issuedAt == bench.clock.now)
        #expect(!token.isExpired(at: bench.clock.now))
        let silent = try Bench(.softwareTPM, Provider.Manner(clockOffset: ahead))
        let other = try await silent.start().store(silent.provider.signIn())
        await #expect(throws: credentials(.invalidToken)) { try await other.refresh() }
    }

    @Test func `a token that is not in use yet is stored`() async throws {
        let bench = try Bench()
        let token = try bench.provider.signIn()
        let credential = try await bench.start().store(token)
        try failing(bench, "UPDATE ON record")
        await #expect(throws: KeystoreError.self) { try await credential.refresh() }
        #expect(try await credential.token == token)
        try healed(bench)
        let restarted = try #require(try await bench.start().credential(id: token.id))
        #expect(try await restarted.refresh().accessToken == "access-2")
        #expect(bench.provider.count("/token") == 1)
    }

    @Test(arguments: [false, true])
    func `a lock during the request loses no token and returns none`(diskFails: Bool) async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        let credential = try await store.store(token, security: .pin)
        let hold = bench.provider.hold()
        let refresh = Task { try await credential.refresh() }
        await hold.reached()
        store.lock()
        // Where the disk fails it stays in memory, and shut.
        if diskFails { try failing(bench, "INSERT ON record") }
        hold.go()
        await #expect(throws: diskFails ? keystore(.conflict) : keystore(.cancelled)) {
            try await refresh.value
        }
        if diskFails { try healed(bench) }
        for name in ["latchkey.sqlite", "latchkey.sqlite-wal"] {
            let file = try Data(
                contentsOf: URL(filePath: bench.directory.path(of: "default/\(name)")))
            #expect(file.range(of: Data("access-2".utf8)) == nil)
        }
        #expect(try await credential.token == token)
        let nobody = try await bench.start(presence: NobodyPresent())
        await #expect(throws: keystore(.unavailable)) {
            try await #require(try nobody.credential(id: token.id)).refresh()
        }
        let next =
            diskFails ? credential : try #require(try await bench.start().credential(id: token.id))
        #expect(try await next.refresh().accessToken == "access-2")
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `a lock of all keys during the request loses no token`() async throws {
        let bench = try Bench()
        let (records, _) = try await bench.records()
        let store = CredentialStore(
            records: records, transport: bench.provider,
            configuration: CredentialConfiguration(clock: bench.clock))
        try await store.open()
        let credential = try store.store(bench.provider.signIn())
        let hold = bench.provider.hold()
        let refresh = Task { try await credential.refresh() }
        await hold.reached()
        await records.lock()
        hold.go()
        // This credential has no policy, so it is opened again.
        #expect(try await refresh.value.accessToken == "access-2")
        #expect(try await credential.token.refreshToken == "refresh-2")
    }

    @Test func `removal and revocation include a response that is not in use yet`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let credential = try store.store(bench.provider.signIn(id: "a"))
        bench.provider.setSubject("eve")
        await #expect(throws: credentials(.invalidToken)) { try await credential.refresh() }
        try await credential.revoke(type: .accessToken)
        #expect(!bench.provider.isValid("access-1") && !bench.provider.isValid("access-2"))
        #expect(bench.provider.isValid("refresh-2"))
        try await credential.revoke()
        #expect(!bench.provider.isValid("refresh-2"))
        #expect(try store.allIDs.isEmpty)

        bench.provider.setSubject("jane")
        let (records, _) = try await bench.records()
        let second = try store.store(bench.provider.signIn(id: "b"))
        bench.provider.setSubject("eve")
        await #expect(throws: credentials(.invalidToken)) { try await second.refresh() }
        #expect(try records.idsNow("credential.pending").count == 1)
        try second.remove()
        #expect(try records.idsNow("credential.pending").isEmpty)
    }

    @Test
    func
        `a response for a credential that was removed and stored again is not used for the new one`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        let old = try await store.store(bench.provider.signIn(id: "a"), security: .pin)
        let hold = bench.provider.hold()
        let refresh = Task { try await old.refresh() }
        await hold.reached()
        try old.remove()
        let new = try await store.store(bench.provider.signIn(id: "a"), security: .pin)
        hold.go()
        await #expect(throws: credentials(.notFound)) { try await refresh.value }
        #expect(!bench.provider.isValid("refresh-3"))
        #expect(try await new.token.accessToken == "access-2")
        #expect(try await new.refresh().accessToken == "access-4")
    }

    // MARK: Faults of the disk

    private func failing(_ bench: Bench, _ trigger: String) throws {
        try DatabaseQueue.raw(at: bench.databasePath).write { database in
            try database.execute(
                sql:
                    "CREATE TRIGGER fault BEFORE \(trigger) BEGIN SELECT RAISE(ABORT, 'the disk failed'); END"
            )
        }
    }

    private func healed(_ bench: Bench) throws {
        try DatabaseQueue.raw(at: bench.databasePath).write {
            try $0.execute(sql: "DROP TRIGGER fault")
        }
    }
}
