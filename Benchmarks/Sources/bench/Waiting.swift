import Synchronization

/// How often something was waited for, and how long.
final class Waiting: Sendable {
    private let state = Mutex((calls: 0, time: Duration.zero))

    /// What was waited for since the last call.
    func take() -> (calls: Int, time: Duration) {
        state.withLock { state in
            defer { state = (0, .zero) }
            return state
        }
    }

    func add(since start: ContinuousClock.Instant) {
        let time = ContinuousClock.now - start
        state.withLock { state in
            state.calls += 1
            state.time += time
        }
    }
}
