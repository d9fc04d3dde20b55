internal import Synchronization

/// Everybody who wants to hear of session changes.
final class SessionObservers: Sendable {
    private struct State {
        var next = 0
        var observers: [Int: AsyncStream<SessionStateChange>.Continuation] = [:]
    }

    private let state = Mutex(State())

    deinit {
        state.withLock { $0.observers.values.forEach { $0.finish() } }
    }

    /// A stream that starts with `first`.
    func stream(startingWith first: SessionStateChange) -> AsyncStream<SessionStateChange> {
        let (stream, continuation) = AsyncStream.makeStream(of: SessionStateChange.self)
        continuation.yield(first)
        let id = state.withLock { state in
            state.next += 1
            state.observers[state.next] = continuation
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.observers.removeValue(forKey: id) }
        }
        return stream
    }

    func tell(_ reason: SessionStateChange.Reason) {
        let observers = state.withLock { Array($0.observers.values) }
        for observer in observers { observer.yield(SessionStateChange(reason)) }
    }
}
