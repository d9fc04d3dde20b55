import FoundationEssentials
import LatchkeySimulators
import Synchronization
import Testing

/// The load of a fleet: clients, and the numbers of their results.
final class FleetLoad: Sendable {
    /// A result that a client counts.
    enum Event: String, CaseIterable {
        case login, refresh, setup
        /// A challenge or refresh token was refused after its use.
        case refusedReplay = "refused replay"
        /// There was no answer, or the answer was 503 with `Retry-After`.
        case temporaryError = "temporary error"
        /// A repeated request shows that an earlier attempt, whose answer was lost, used the
        /// challenge.
        case usedChallenge = "challenge used by a lost request"
        /// A repeated request shows that an earlier attempt, whose answer was lost, used the
        /// refresh token. This ends the session.
        case endedSession = "session ended by a repeated refresh"
    }

    private struct State {
        var counts: [Event: Int] = [:]
        var isOver = false
    }

    /// The seed of all random decisions: `LATCHKEY_FLEET_SEED`, or random.
    let seed: UInt64
    private let state = Mutex(State())

    init() {
        let given = ProcessInfo.processInfo.environment["LATCHKEY_FLEET_SEED"].flatMap {
            UInt64($0)
        }
        seed = given ?? .random(in: 0...UInt64(UInt32.max))
    }

    /// Whether the clients end.
    var isOver: Bool { state.withLock { $0.isOver } }

    subscript(event: Event) -> Int { state.withLock { $0.counts[event] ?? 0 } }

    func add(_ event: Event) { state.withLock { $0.counts[event, default: 0] += 1 } }

    /// Waits until the clients have rotated this number of further refresh tokens: a challenge, a
    /// login and a rotation each.
    func progress(by count: Int) async throws {
        let goal = self[.refresh] + count
        let isReached = await poll { self[.refresh] >= goal || isOver }
        try #require(
            isReached && self[.refresh] >= goal, "the clients make no progress: \(summary)")
    }

    /// Runs the clients during `fault` and until they have done everything at least once, and
    /// checks their devices.
    func run(_ clients: [FleetClient], during fault: () async throws -> Void) async throws {
        print("Fleet: seed \(seed)")
        let running = clients.map { client in
            Task {
                // An error of one client ends the test at once.
                defer { end() }
                try await client.run()
            }
        }
        let outcome: Result<Void, any Error>
        do {
            try await progress(by: clients.count)
            try await fault()
            try await progress(by: clients.count)
            let isComplete = await poll { self[.setup] > 0 || isOver }
            try #require(isComplete && self[.setup] > 0, "\(summary)")
            outcome = .success(())
        } catch {
            outcome = .failure(error)
            for client in running { client.cancel() }
        }
        end()
        for client in running {
            let result = await client.result
            if case .failure(let error) = result, !(error is CancellationError) {
                Issue.record(error)
            }
        }
        try outcome.get()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for client in clients { group.addTask { try await client.checkDevices() } }
            try await group.waitForAll()
        }
        print("Fleet: seed \(seed): \(summary)")
    }

    private func end() { state.withLock { $0.isOver = true } }

    private var summary: String {
        Event.allCases.map { "\($0.rawValue): \(self[$0])" }.joined(separator: ", ")
    }
}
