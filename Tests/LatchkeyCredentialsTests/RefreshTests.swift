import Foundation
import HTTPTypes
import Latchkey
import LatchkeyCredentials
import LatchkeyTesting
import Testing

/// Getting the next token.
@Suite(.softwareTPM)
struct RefreshTests {
    @Test func `a refresh keeps the id and what the server leaves out`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let token = try scene.token("t1", more: ["device_secret": "secret", "scope": "openid", "odd": .number(7)])
        let credential = try await store.store(token: token, tags: ["a": "1"])
        let refreshed = try await credential.refresh()
        #expect(refreshed.id == "t1")
        #expect((refreshed.accessToken, refreshed.refreshToken) == ("access-1", "refresh-1"))
        #expect((refreshed.deviceSecret, refreshed.scope) == ("secret", "openid"))
        #expect(refreshed.idToken == token.idToken)
        #expect(try await scene.start().with(id: "t1")?.token == refreshed)
        #expect(credential.tags == ["a": "1"])
        #expect(try await credential.refresh().accessToken == "access-2")
    }

    @Test func `tasks share one request`() async throws {
        let scene = try Scene(.init(holdsTokens: true))
        let credential = try await scene.start().store(token: scene.token("t1"))
        let tasks = (0..<16).map { _ in Task { try await credential.refresh().accessToken } }
        await scene.provider.arrival()
        await scene.provider.release()
        for task in tasks { #expect(try await task.value == "access-1") }
        #expect(await scene.provider.count("/token") == 1)
    }

    @Test func `whoever is cancelled keeps nobody from the token`() async throws {
        let scene = try Scene(.init(holdsTokens: true))
        let credential = try await scene.start().store(token: scene.token("t1"))
        let leader = Task { try await credential.refresh().accessToken }
        await scene.provider.arrival()
        let others = (0..<4).map { _ in Task { try await credential.refresh().accessToken } }
        leader.cancel()
        await scene.provider.release()
        for other in others { #expect(["access-1", "access-2"].contains(try await other.value)) }
        #expect(try credential.token.refreshToken == "refresh-\(await scene.provider.count("/token"))")
    }

    @Test func `programs share one request`() async throws {
        let scene = try Scene(.init(holdsTokens: true))
        let mine = try await scene.start().store(token: scene.token("t1"))
        let theirs = try #require(try await scene.start().with(id: "t1"))
        let one = Task { try await mine.refresh() }
        await scene.provider.arrival()
        let other = Task { try await theirs.refresh() }
        // The other has read the old token by the time it asks for the lock; nothing tells when that is.
        try await Task.sleep(for: .milliseconds(200))
        await scene.provider.release()
        #expect(try await one.value == other.value)
        #expect(await scene.provider.count("/token") == 1)
        #expect(try mine.token == theirs.token)
    }

    @Test func `without a refresh token nothing is sent`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1", refresh: nil))
        await #expect(throws: missingToken) { try await credential.refresh() }
        #expect(await scene.provider.requests.isEmpty)
    }

    @Test func `a token that was taken back is told from a server that is away`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1", refresh: "stolen"))
        await #expect(throws: invalidGrant) { try await credential.refresh() }
        await scene.provider.change { $0.isUnreachable = true }
        await #expect(throws: unavailable) { try await credential.refresh() }
        await scene.provider.change { manner in
            manner.isUnreachable = false
            manner.refusal = (503, "busy")
        }
        await #expect(throws: unexpectedStatus) { try await credential.refresh() }
        await scene.provider.change { $0.refusal = (200, "[]") }
        await #expect(throws: invalidResponse) { try await credential.refresh() }
        #expect(try credential.token.refreshToken == "stolen")
    }

    @Test func `a token that can't be stored is seen by nobody, and stored by the next refresh`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let credential = try await store.store(token: scene.token("t1"))
        try await scene.withBrokenDisk("UPDATE ON record") {
            await #expect(throws: KeystoreError.self) { try await credential.refresh() }
            let kept = try credential.token.accessToken
            #expect(kept == "access-0")
        }
        #expect(try await credential.refresh().accessToken == "access-1")
        #expect(await scene.provider.count("/token") == 1)
        #expect(try await scene.start().with(id: "t1")?.token.refreshToken == "refresh-1")
    }

    @Test func `a token that comes for a removed credential is given back`() async throws {
        let scene = try Scene(.init(holdsTokens: true))
        let credential = try await scene.start().store(token: scene.token("t1"))
        let refresh = Task { try await credential.refresh() }
        await scene.provider.arrival()
        try await credential.remove()
        await scene.provider.release()
        await #expect(throws: notFound) { try await refresh.value }
        #expect(await scene.provider.revoked == ["refresh_token"])
    }

    @Test func `a protected token is refreshed for whoever is present, under its own protection`() async throws {
        let scene = try Scene()
        let presence = ScriptedPresence(pins: "2468", "2468")
        let credential = try await scene.start(presence).store(token: scene.token("t1"), security: .pin)
        try credential.lock()
        #expect(try await credential.refresh().accessToken == "access-1")
        #expect(presence.requests.map(\.purpose) == [.new, .current])
        let locked = try #require(try await scene.start().with(id: "t1"))
        #expect(throws: wrongState) { try locked.token }
        #expect(try await locked.unlock().accessToken == "access-1")
    }

    @Test(arguments: [(0.0, 0), (3299, 0), (3301, 1), (4000, 1)])
    func `a token is refreshed when it is about to end`(elapsed: Double, refreshes: Int) async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1"))
        scene.clock.advance(elapsed)
        try await credential.refreshIfNeeded()
        #expect(await scene.provider.count("/token") == refreshes)
    }

    @Test func `a token without an end is never refreshed by itself`() async throws {
        let scene = try Scene()
        let credential = try await scene.start().store(token: scene.token("t1", lifetime: nil))
        scene.clock.advance(1e9)
        try await credential.refreshIfNeeded()
        #expect(await scene.provider.count("/token") == 0)
    }

    @Test func `a new ID token is checked before anything is kept`() async throws {
        let scene = try Scene(.init(idToken: { $0["sub"] = "mallory" }))
        let credential = try await scene.start().store(token: scene.token("t1"))
        let error = await #expect(throws: CredentialError.self) { try await credential.refresh() }
        #expect(error?.flaw == .subject)
        #expect(try credential.token.accessToken == "access-0")
        let honest = try Scene(.init(idToken: { $0["name"] = "Jane" }))
        let other = try await honest.start().store(token: honest.token("t1"))
        #expect(try await other.refresh().name == "Jane")
        #expect(await honest.provider.count("/keys") == 1)
    }
}
