import FoundationEssentials
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@Suite("Challenges") struct ChallengeStoreTests {
    private static func store(_ clock: WallClock) async throws -> DatabaseChallengeStore {
        DatabaseChallengeStore(
            try await TestDatabase.open(DatabaseChallengeStore.migrations), clock: clock)
    }

    @Test func `a challenge is valid once, for its purpose`()
        async throws
    {
        let store = try await Self.store(.system)
        let challenge = try await store.issue(.biometricRequest)
        #expect(challenge.token.wholeMatch(of: /[0-9A-HJKMNP-TV-Z]{32}/) != nil)
        #expect(try await store.consume(challenge.token, for: .biometricRequest))
        #expect(try await !store.consume(challenge.token, for: .biometricRequest))
        #expect(
            try await !store.consume("0123456789ABCDEFGHJKMNPQRSTVWXYZ", for: .biometricRequest))

        let other = try await store.issue(.anonymousRequest)
        #expect(try await !store.consume(other.token, for: .biometricRequest))
        #expect(try await !store.consume(other.token, for: .anonymousRequest))
    }

    @Test func `a challenge is valid for 300 seconds`()
        async throws
    {
        let time = SettableClock(stoppedAt: Date(timeIntervalSince1970: 1_700_000_000))
        let store = try await Self.store(time.clock)
        let (first, second) = (
            try await store.issue(.biometricRequest), try await store.issue(.biometricRequest)
        )
        #expect(first.expiresAt == time.clock.now.addingTimeInterval(300))
        time.advance(by: 299.5)
        #expect(try await store.consume(first.token, for: .biometricRequest))
        time.advance(by: 0.5)
        #expect(try await !store.consume(second.token, for: .biometricRequest))
    }

    @Test func `of concurrent uses, one succeeds`() async throws {
        let store = try await Self.store(.system)
        let token = try await store.issue(.biometricRequest).token
        let winners = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 1...32 {
                group.addTask { try await store.consume(token, for: .biometricRequest) }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(winners == 1)
    }
}
