internal import Synchronization

/// Everybody who wants to hear of events.
final class EventObservers: Sendable {
    private struct State {
        var next = 0
        var observers: [Int: AsyncStream<CredentialEvent>.Continuation] = [:]
    }

    private let state = Mutex(State())

    deinit {
        state.withLock { $0.observers.values.forEach { $0.finish() } }
    }

    func stream() -> AsyncStream<CredentialEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: CredentialEvent.self)
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

    /// Tells all streams, and then the notification center.
    func tell(_ event: CredentialEvent) {
        let observers = state.withLock { Array($0.observers.values) }
        for observer in observers { observer.yield(event) }
        CredentialNotification.post(event)
    }
}
