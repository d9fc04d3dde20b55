internal import FoundationEssentials
internal import Synchronization

/// Challenges in memory: they don't survive the process, and serve one process only.
public final class MemoryChallengeStore: ChallengeStore {
    private struct Entry {
        var purpose: ChallengePurpose
        var expiresAt: Date
    }

    private struct State {
        var entries: [[UInt8]: Entry] = [:]
        /// In the order of expiry, for all live equally long.
        var order: [(digest: [UInt8], expiresAt: Date)] = []
    }

    private let state = Mutex(State())
    private let clock: WallClock
    private let random: RandomSource
    private let capacity: Int

    /// - Parameter capacity: How many challenges are kept at most; the oldest give way.
    public init(capacity: Int = 10_000, clock: WallClock = .system, random: RandomSource = .system) {
        self.capacity = max(1, capacity)
        self.clock = clock
        self.random = random
    }

    public func issue(_ purpose: ChallengePurpose) async throws -> Challenge {
        let challenge = Challenge(purpose, clock: clock, random: random)
        let digest = Challenge.digest(challenge.token)
        let now = clock.now
        state.withLock { state in
            let expired = state.order.prefix { $0.expiresAt <= now }.count
            let leaving = max(expired, state.order.count - capacity + 1, 0)
            for (digest, _) in state.order.prefix(leaving) { state.entries[digest] = nil }
            state.order.removeFirst(leaving)
            state.entries[digest] = Entry(purpose: purpose, expiresAt: challenge.expiresAt)
            state.order.append((digest, challenge.expiresAt))
        }
        return challenge
    }

    public func consume(_ token: String, for purpose: ChallengePurpose) async throws -> Bool {
        let entry = state.withLock { $0.entries.removeValue(forKey: Challenge.digest(token)) }
        guard let entry else { return false }
        return entry.purpose == purpose && clock.now < entry.expiresAt
    }
}
