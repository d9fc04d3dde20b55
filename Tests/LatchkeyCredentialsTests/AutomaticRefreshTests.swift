import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyCredentials

/// Refreshing by itself: it neither spins nor sleeps for ever, and it ends.
struct RefreshScheduleTests {
    private let start = Date(timeIntervalSince1970: 1_000_000)

    private func token(life: Int?) throws -> Token {
        var response: [String: JSONValue] = ["access_token": "a", "token_type": "Bearer"]
        if let life { response["expires_in"] = .number(Double(life)) }
        return try Token(response, context: Provider.context, issuedAt: start)
    }

    @Test(
        arguments: [
            (3600, 0, .sleep(3300)), (3600, 3299, .sleep(1)), (3600, 3300, .refresh), (3600, 9999, .refresh),
            (200, 0, .sleep(100)), (200, 100, .refresh), (1, 0, .sleep(0.5)), (0, 0, .refresh),
            (1_000_000, 0, .sleep(3600)), (nil, 0, .stop), (3600, -5000, .sleep(3600)),
        ] as [(Int?, Double, RefreshSchedule.Step)])
    func `a token is refreshed before it ends, however short it lives`(
        life: Int?, elapsed: Double, step: RefreshSchedule.Step
    ) throws {
        let schedule = RefreshSchedule(grace: 300)
        #expect(schedule.step(for: try token(life: life), now: start.addingTimeInterval(elapsed)) == step)
    }

    @Test func `failures wait longer and longer, and success starts anew`() {
        var schedule = RefreshSchedule(grace: 300)
        #expect((0..<8).map { _ in schedule.failed(unavailable) } == [5, 10, 20, 40, 80, 160, 300, 300])
        #expect(schedule.succeeded() == 5)
        #expect(schedule.failed(unexpectedStatus) == 5)
    }

    @Test(arguments: [invalidGrant, missingToken, invalidToken, notFound, wrongState, damaged] as [any Error])
    func `what can't pass ends it`(error: any Error) {
        var schedule = RefreshSchedule(grace: 300)
        #expect(schedule.failed(error) == nil)
    }
}

@Suite(.softwareTPM)
struct AutomaticRefreshTests {
    /// Sleeps by setting the clock, and stops after so many sleeps.
    private final class Sleeper: Sendable {
        private let slept = Mutex<[Double]>([])
        private let clock: SettableClock
        private let limit: Int

        init(_ clock: SettableClock, limit: Int) {
            self.clock = clock
            self.limit = limit
        }

        var naps: [Double] { slept.withLock { $0 } }

        func sleep(_ duration: Duration) throws {
            let seconds = Double(duration.components.seconds) + Double(duration.components.attoseconds) * 1e-18
            clock.advance(seconds)
            let count = slept.withLock { slept in
                slept.append(seconds)
                return slept.count
            }
            guard count < limit else { throw CancellationError() }
        }
    }

    private func run(_ scene: Scene, _ token: Token, naps: Int) async throws -> (Credential, Sleeper) {
        let sleeper = Sleeper(scene.clock, limit: naps)
        let store = try await scene.start { $0.sleep = { try sleeper.sleep($0) } }
        let credential = try await store.store(token: token)
        try credential.startAutomaticRefresh()
        await credential.work.withLock { $0.automatic }?.value
        return (credential, sleeper)
    }

    @Test func `it refreshes again and again`() async throws {
        let scene = try Scene()
        let (credential, sleeper) = try await run(scene, scene.token("t1"), naps: 6)
        #expect(try credential.token.accessToken == "access-3")
        #expect(sleeper.naps.filter { $0 > 5.5 }.count == 3)
    }

    @Test func `a life shorter than the grace is no reason to spin`() async throws {
        let scene = try Scene(.init(lifetime: 20))
        let (_, sleeper) = try await run(scene, scene.token("t1", lifetime: 20), naps: 12)
        let refreshes = await scene.provider.count("/token")
        #expect((5...7).contains(refreshes))
        #expect(sleeper.naps.reduce(0, +) >= 5 * Double(refreshes))
    }

    @Test func `a server that is away is not hammered`() async throws {
        let scene = try Scene(.init(isUnreachable: true))
        let (_, sleeper) = try await run(scene, scene.token("t1", lifetime: 0), naps: 6)
        #expect(sleeper.naps == [5, 10, 20, 40, 80, 160])
    }

    @Test func `a token that was taken back ends it`() async throws {
        let scene = try Scene()
        let (credential, sleeper) = try await run(scene, scene.token("t1", refresh: "stolen", lifetime: 0), naps: 6)
        #expect(sleeper.naps.isEmpty)
        #expect(await scene.provider.count("/token") == 1)
        #expect(!credential.isRefreshingAutomatically)
    }

    @Test func `it is refused where somebody must be present, and keeps no credential alive`() async throws {
        let scene = try Scene()
        let store = try await scene.start()
        let gated = try await store.store(token: scene.token("t1"), security: .pin)
        #expect(throws: unsupported) { try gated.startAutomaticRefresh() }
        var credential: Credential? = try await store.store(token: scene.token("t2"))
        weak let held = credential
        try credential?.startAutomaticRefresh()
        #expect(credential?.isRefreshingAutomatically == true)
        credential?.stopAutomaticRefresh()
        #expect(credential?.isRefreshingAutomatically == false)
        try credential?.startAutomaticRefresh()
        credential = nil
        let deadline = ContinuousClock.now + .seconds(10)
        while held != nil, ContinuousClock.now < deadline { await Task.yield() }
        #expect(held == nil)
    }
}
