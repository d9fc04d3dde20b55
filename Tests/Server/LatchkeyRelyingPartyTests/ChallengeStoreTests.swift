import FoundationEssentials
import LatchkeyRelyingParty
import LatchkeyTestSupport
import Testing

@Suite("Challenges") struct ChallengeStoreTests {
    enum Kind: CaseIterable, Sendable {
        case memory, database

        func store(_ clock: WallClock) async throws -> any ChallengeStore {
            switch self {
            case .memory: return MemoryChallengeStore(clock: clock)
            case .database:
                return DatabaseChallengeStore(
                    try await TestDatabase.open(DatabaseChallengeStore.migrations), clock: clock)
            }
        }
    }

    @Test(arguments: Kind.allCases) func `a challenge is valid once, for its purpose`(kind: Kind)
        async throws
    {
        let store = try await kind.store(.system)
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

    @Test(arguments: Kind.allCases) func `a challenge is valid for 300 seconds`(kind: Kind)
        async throws
    {
        let time = SettableClock(stoppedAt: Date(timeIntervalSince1970: 1_700_000_000))
        let store = try await kind.store(time.clock)
        let (first, second) = (
            try await store.issue(.biometricRequest), try await store.issue(.biometricRequest)
        )
        #expect(first.expiresAt == time.clock.now.addingTimeInterval(300))
        time.advance(by: 299.5)
        #expect(try await store.consume(first.token, for: .biometricRequest))
        time.advance(by: 0.5)
        #expect(try await !store.consume(second.token, for: .biometricRequest))
    }

    @Test(arguments: Kind.allCases) func `of concurrent uses, one succeeds`(kind: Kind) async throws
    {
        let store = try await kind.store(.system)
        let token = try await store.issue(.biometricRequest).token
        let winners = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 1...32 {
                group.addTask { try await store.consume(token, for: .biometricRequest) }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(winners == 1)
    }

    @Test func `the memory store keeps at most its capacity`() async throws {
        let store = MemoryChallengeStore(capacity: 2)
        var tokens: [String] = []
        for _ in 1...3 { tokens.append(try await store.issue(.biometricRequest).token) }
        #expect(try await !store.consume(tokens[0], for: .biometricRequest))
        #expect(try await store.consume(tokens[1], for: .biometricRequest))
        #expect(try await store.consume(tokens[2], for: .biometricRequest))
    }
}
