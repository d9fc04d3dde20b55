import Foundation
import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// Refreshing, against a server that takes a refresh token once.
@Suite(.softwareTPM)
struct RefreshTests {
    @Test(.softwareToken, arguments: Hardware.allCases)
    func `a refreshed token is stored, and the id and missing members stay`(hardware: Hardware)
        async throws
    {
        let bench = try Bench(hardware)
        let store = try await bench.start()
        let token = try bench.provider.signIn(deviceSecret: true)
        let credential = try store.store(token, tags: ["a": "1"])
        let events = store.events
        bench.clock.advance(by: 1000)
        let fresh = try await credential.refresh()
        #expect(fresh.id == token.id)
        #expect(fresh.accessToken == "access-2")
        #expect(fresh.refreshToken == "refresh-2")
        #expect(fresh.deviceSecret == token.deviceSecret)
        #expect(fresh.issuedAt == bench.clock.now)
        #expect(try await credential.token == fresh)
        #expect(credential.tags == ["a": "1"])
        #expect(try credential.metadata.expiresAt == fresh.expiresAt)
        #expect(try await bench.start().credential(id: token.id)?.token == fresh)
        #expect(await names(of: events, count: 1) == ["refreshed \(token.id)"])
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `an ID token that is not renewed stays`() async throws {
        let bench = try Bench(.softwareTPM, Provider.Manner(renewsIDToken: false))
        let token = try bench.provider.signIn()
        let fresh = try await bench.start().store(token).refresh()
        #expect(fresh.accessToken != token.accessToken)
        #expect(fresh.idToken == token.idToken)
    }

    @Test func `without a refresh token there is no request`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(refreshes: false))
        await #expect(throws: credentials(.missingToken)) { try await credential.refresh() }
        try await credential.refreshIfNeeded(graceInterval: 1e9)
        #expect(bench.provider.requests.isEmpty)
    }

    @Test func `many callers share one request`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let hold = bench.provider.hold()
        let tokens = try await withThrowingTaskGroup(of: Token.self) { group in
            for _ in 0..<32 { group.addImmediateTask { try await credential.refresh() } }
            await hold.reached()
            #expect(credential.isRefreshing)
            hold.go()
            return try await group.reduce(into: Set<Token>()) { $0.insert($1) }
        }
        #expect(!credential.isRefreshing)
        #expect(tokens.count == 1)
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `a cancelled caller does not cancel the refresh of others`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let hold = bench.provider.hold()
        let leader = Task { try await credential.refresh() }
        await hold.reached()
        let follower = Task.immediate { try await credential.refresh() }
        leader.cancel()
        hold.go()
        #expect(try await follower.value.accessToken == "access-2")
        #expect(try await credential.token.accessToken == "access-2")
    }

    @Test func `two programs share one request, and both have the valid token`() async throws {
        let bench = try Bench()
        let first = try await bench.start().store(bench.provider.signIn())
        let second = try #require(try await bench.start().credential(id: first.id))
        let hold = bench.provider.hold()
        async let one = first.refresh()
        await hold.reached()
        async let two = second.refresh()
        // The second opens the lock after it has read the row.
        #expect(await poll { openLocks(in: bench) == 2 })
        hold.go()
        let tokens = try await [one, two]
        #expect(tokens[0] == tokens[1])
        #expect(bench.provider.isValid(tokens[0].accessToken))
        #expect(bench.provider.isValid(tokens[1].refreshToken))
        #expect(bench.provider.count("/token") == 1)
    }

    /// How often this process has opened the lock file of a bench's container.
    private func openLocks(in bench: Bench) -> Int {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return files.count { file in
            let path = try? FileManager.default.destinationOfSymbolicLink(
                atPath: "/proc/self/fd/\(file)")
            return path?.hasPrefix(bench.databasePath) == true && path?.hasSuffix(".lock") == true
        }
    }

    @Test func `a token that could not be stored is not returned, and the next refresh stores it`()
        async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        let credential = try store.store(token)
        // Another program holds the write lock longer than the timeout.
        let other = try DatabaseQueue.raw(at: bench.databasePath)
        try await other.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        await #expect(throws: keystore(.transient)) { try await credential.refresh() }
        #expect(try await credential.token == token)
        try await other.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        #expect(try await bench.start().credential(id: token.id)?.token == token)
        let saved = try await credential.refresh()
        #expect(saved.accessToken == "access-2")
        #expect(try await bench.start().credential(id: token.id)?.token == saved)
        #expect(bench.provider.count("/token") == 1)
    }

    @Test
    func
        `a credential that is removed during a refresh stays removed, and its new token is revoked`()
        async throws
    {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let hold = bench.provider.hold()
        let refresh = Task { try await credential.refresh() }
        await hold.reached()
        try credential.remove()
        hold.go()
        await #expect(throws: credentials(.notFound)) { try await refresh.value }
        #expect(!bench.provider.isValid("refresh-2"))
        #expect(try await bench.start().allCredentials.isEmpty)
    }

    @Test func `tags that are set during a refresh stay`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(), tags: ["a": "1"])
        let hold = bench.provider.hold()
        let refresh = Task { try await credential.refresh() }
        await hold.reached()
        try credential.setTags(["b": "2"])
        hold.go()
        #expect(try await refresh.value.accessToken == "access-2")
        #expect(credential.tags == ["b": "2"])
        #expect(try await credential.token.accessToken == "access-2")
    }

    @Test func `if the server refuses the refresh token, the error is signInAgain`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        let credential = try store.store(token)
        let events = store.events
        bench.provider.fail(
            "/token", .status(400, #"{"error":"invalid_grant","error_description":"over"}"#))
        let error = await #expect(throws: credentials(.signInAgain)) {
            try await credential.refresh()
        }
        #expect(error?.oauthError?.description == "over")
        #expect(await names(of: events, count: 1) == ["failed \(token.id) signInAgain"])
        #expect(try await credential.token == token)
    }

    @Test(arguments: [
        (Provider.Step.noNetwork, CredentialError.Code.network), (.loseAnswer, .network),
        (.status(503, ""), .unexpectedStatus),
        (.status(429, ""), .rateLimited), (.status(200, "<html>"), .invalidResponse),
        (.status(200, #"{"x":1}"#), .invalidResponse),
        (.status(400, #"{"error":"invalid_client"}"#), .oauthError),
        (.status(302, ""), .unexpectedStatus),
    ])
    func `an invalid response changes nothing`(step: Provider.Step, code: CredentialError.Code)
        async throws
    {
        let bench = try Bench()
        let token = try bench.provider.signIn()
        let credential = try await bench.start().store(token)
        bench.provider.fail("/token", step)
        await #expect(throws: credentials(code)) { try await credential.refresh() }
        #expect(try await credential.token == token)
    }

    @Test func `a token with another signer's signature is refused`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        let token = try bench.provider.signIn()
        let credential = try store.store(token)
        // The server's keys are known. Then another signer uses a key with the same name.
        _ = try await credential.refresh()
        bench.clock.advance(by: 60)
        let forged = try Signer().sign(bench.provider.idToken("jane").claims)
        bench.provider.fail("/token", .answer(["id_token": .string(forged.rawValue)]))
        await #expect(throws: credentials(.invalidToken)) { try await credential.refresh() }
        #expect(try await credential.token.accessToken == "access-2")
    }

    @Test func `a new key is read once`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        _ = try await credential.refresh()
        bench.clock.advance(by: 60)
        bench.provider.use(try Signer(keyID: "key-2"))
        _ = try await credential.refresh()
        #expect(bench.provider.count("/keys") == 2)
        bench.provider.use(try Signer(keyID: "key-3"))
        await #expect(throws: credentials(.invalidToken)) { try await credential.refresh() }
        #expect(bench.provider.count("/keys") == 2)
        bench.clock.advance(by: 30)
        _ = try await credential.refresh()
        #expect(bench.provider.count("/keys") == 3)
    }

    @Test func `a token is refreshed only shortly before its expiry`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(lifetime: 3600))
        bench.clock.advance(by: 3299)
        try await credential.refreshIfNeeded()
        #expect(bench.provider.count("/token") == 0)
        bench.clock.advance(by: 1)
        try await credential.refreshIfNeeded()
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `a token whose lifetime is shorter than the grace interval is used for half of it`()
        async throws
    {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(lifetime: 200))
        try await credential.refreshIfNeeded()
        bench.clock.advance(by: 99)
        try await credential.refreshIfNeeded()
        #expect(bench.provider.count("/token") == 0)
        bench.clock.advance(by: 1)
        try await credential.refreshIfNeeded()
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `a token that was issued in the future is refreshed`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(lifetime: 3600))
        bench.clock.advance(by: -59)
        try await credential.refreshIfNeeded()
        #expect(bench.provider.count("/token") == 0)
        bench.clock.advance(by: -7200)
        try await credential.refreshIfNeeded()
        try await credential.refreshIfNeeded()
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `while one credential with a policy is open, another one prompts`() async throws {
        let bench = try Bench()
        let presence = ScriptedPresence([
            .pin(Bench.pin), .pin(Bench.pin), .pin(Bench.pin), .decline, .decline,
        ])
        let store = try await bench.start(presence: presence)
        let one = try await store.store(bench.provider.signIn(), security: .pin)
        let other = try await store.store(bench.provider.signIn(), security: .pin)
        let hold = bench.provider.hold()
        let refresh = Task { try await one.refresh() }
        await hold.reached()
        #expect(presence.requests.count == 3)
        await #expect(throws: keystore(.cancelled)) { try await other.token }
        await #expect(throws: keystore(.cancelled)) { try await other.userInfo() }
        #expect(presence.requests.count == 5)
        // The one that is open shares its proof.
        #expect(try await one.token.accessToken == "access-1")
        hold.go()
        #expect(try await refresh.value.accessToken == "access-3")
        #expect(presence.requests.count == 5)
    }

    @Test func `a credential with a policy prompts once for a refresh, before the request`()
        async throws
    {
        let bench = try Bench()
        let presence = ScriptedPresence([.pin(Bench.pin), .pin(Bench.pin), .decline])
        let credential = try await bench.start(presence: presence).store(
            bench.provider.signIn(), security: .pin)
        _ = try await credential.refresh()
        #expect(presence.requests.count == 2)
        await #expect(throws: keystore(.cancelled)) { try await credential.refresh() }
        #expect(bench.provider.count("/token") == 1)
    }
}
