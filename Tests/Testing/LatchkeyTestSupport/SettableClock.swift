package import FoundationEssentials
internal import LatchkeySimulators
internal import Synchronization

/// A clock that a test advances. `sleep(for:)` advances the clock and returns at once.
package final class SettableClock: Sendable {
    private struct State {
        var ahead: TimeInterval = 0
        var sleepsLeft = Int.max
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    /// The time that a stopped clock shows until the test advances it; nil for a running clock.
    private let start: Date?
    private let state = Mutex(State())

    /// Creates a clock that is stopped at a time, or one that runs with the system's clock.
    package init(stoppedAt start: Date? = nil) {
        self.start = start
    }

    package var now: Date { (start ?? Date()).addingTimeInterval(state.withLock { $0.ahead }) }

    package func advance(by seconds: TimeInterval) {
        state.withLock { $0.ahead += seconds }
    }

    /// After this many more sleeps, no sleep ends.
    package func allow(sleeps: Int) {
        state.withLock { $0.sleepsLeft = sleeps }
    }

    /// Waits until a task is in a sleep that does not end.
    package func asleep() async {
        let watchdog = Task {
            try await Task.sleep(for: hangLimit)
            takeWaiting().forEach { $0.resume() }
        }
        defer { watchdog.cancel() }
        await withCheckedContinuation { continuation in
            let isAsleep = state.withLock { state in
                guard state.sleepsLeft >= 0 else { return true }
                state.waiting.append(continuation)
                return false
            }
            if isAsleep { continuation.resume() }
        }
    }

    package func sleep(for duration: Duration) async throws {
        let isPermanent = state.withLock { state in
            state.sleepsLeft -= 1
            guard state.sleepsLeft >= 0 else { return true }
            state.ahead += TimeInterval(duration.components.seconds)
            return false
        }
        guard isPermanent else { return }
        takeWaiting().forEach { $0.resume() }
        try await Task.sleep(for: .seconds(3600))
    }

    private func takeWaiting() -> [CheckedContinuation<Void, Never>] {
        state.withLock { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }
}
