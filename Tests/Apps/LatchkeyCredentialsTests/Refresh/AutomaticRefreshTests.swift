import Foundation
import Latchkey
import LatchkeyCredentials
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

/// Automatic refresh, on a clock that runs as fast as it is slept on.
@Suite(.softwareTPM)
struct AutomaticRefreshTests {
    @Test func `a token is refreshed shortly before each expiry`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        let start = bench.clock.now
        bench.clock.allow(sleeps: 60)
        credential.automaticRefresh = true
        await bench.clock.asleep()
        let hours = bench.clock.now.timeIntervalSince(start) / 3300
        #expect(abs(Double(bench.provider.count("/token")) - hours) <= 1)
        #expect(bench.provider.count("/token") >= 5)
        #expect(credential.automaticRefresh)
        credential.automaticRefresh = false
    }

    @Test func `a failing server gets few requests`() async throws {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn(lifetime: 10))
        for _ in 0..<100 { bench.provider.fail("/token", .status(503, "")) }
        let start = bench.clock.now
        bench.clock.allow(sleeps: 40)
        credential.automaticRefresh = true
        await bench.clock.asleep()
        let minutes = bench.clock.now.timeIntervalSince(start) / 60
        let attempts = bench.provider.count("/token")
        #expect(attempts >= 7)
        #expect(Double(attempts) <= 6 + minutes / 5 + 1, "\(attempts) in \(minutes) minutes")
        credential.automaticRefresh = false
    }

    @Test(arguments: [0, 1, 4, 200])
    func `a token with a very short lifetime causes neither a trap nor a busy loop`(lifetime: Int)
        async throws
    {
        let bench = try Bench(.softwareTPM, Provider.Manner(lifetime: lifetime))
        let credential = try await bench.start().store(bench.provider.signIn())
        let start = bench.clock.now
        bench.clock.allow(sleeps: 30)
        credential.automaticRefresh = true
        await bench.clock.asleep()
        let seconds = bench.clock.now.timeIntervalSince(start)
        #expect(
            Double(bench.provider.count("/token")) <= seconds / max(5, Double(lifetime) / 2) + 2)
        #expect(bench.provider.count("/token") >= 2)
        credential.automaticRefresh = false
    }

    @Test func `it ends with signInAgain, and at once for a credential with a policy`() async throws
    {
        let bench = try Bench()
        let store = try await bench.start()
        let over = try store.store(bench.provider.signIn(id: "over", lifetime: 10))
        bench.provider.fail("/token", .status(400, #"{"error":"invalid_grant"}"#))
        let events = store.events
        over.automaticRefresh = true
        #expect(await names(of: events, count: 1) == ["failed over signInAgain"])
        let gated = try await store.store(bench.provider.signIn(id: "gated"), security: .pin)
        let more = store.events
        gated.automaticRefresh = true
        #expect(await names(of: more, count: 1) == ["failed gated unsupported"])
        while over.automaticRefresh || gated.automaticRefresh { await Task.yield() }
        #expect(bench.provider.count("/token") == 1)
    }

    @Test func `a clock that is set back causes neither a long wait nor a busy loop`() async throws
    {
        let bench = try Bench()
        let credential = try await bench.start().store(bench.provider.signIn())
        try await credential.refresh()
        bench.clock.advance(by: -86_400)
        let start = bench.clock.now
        bench.clock.allow(sleeps: 5)
        credential.automaticRefresh = true
        await bench.clock.asleep()
        #expect(
            bench.provider.count("/token") == 2
                + Int(bench.clock.now.timeIntervalSince(start) / 3300))
        credential.automaticRefresh = false
    }

    @Test func `it does not keep a credential alive`() async throws {
        let bench = try Bench()
        let store = try await bench.start()
        bench.clock.allow(sleeps: 1)
        weak var released: Credential?
        do {
            let credential = try store.store(bench.provider.signIn())
            released = credential
            credential.automaticRefresh = true
            await bench.clock.asleep()
        }
        // The notification that it was stored may still be on its way.
        await poll { released == nil }
        #expect(released == nil)
    }
}
