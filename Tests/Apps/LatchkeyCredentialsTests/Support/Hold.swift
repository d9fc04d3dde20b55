import LatchkeySimulators
import Synchronization

/// A point where a task waits until the test releases it.
final class Hold: Sendable {
    private struct State {
        var isOpen = false
        var isReached = false
        var held: [CheckedContinuation<Void, Never>] = []
        var watching: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func wait() async {
        await withCheckedContinuation { continuation in
            let (isOpen, watching) = state.withLock { state in
                state.isReached = true
                if !state.isOpen { state.held.append(continuation) }
                defer { state.watching = [] }
                return (state.isOpen, state.watching)
            }
            watching.forEach { $0.resume() }
            if isOpen { continuation.resume() }
        }
    }

    /// Waits until a task waits here.
    func reached() async {
        let watchdog = Task {
            try await Task.sleep(for: hangLimit)
            state.withLock { state in
                defer { state.watching = [] }
                return state.watching
            }.forEach { $0.resume() }
        }
        defer { watchdog.cancel() }
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if !state.isReached { state.watching.append(continuation) }
                return state.isReached
            }
            if isReached { continuation.resume() }
        }
    }

    func go() {
        let held = state.withLock { state in
            state.isOpen = true
            defer { state.held = [] }
            return state.held
        }
        held.forEach { $0.resume() }
    }
}
