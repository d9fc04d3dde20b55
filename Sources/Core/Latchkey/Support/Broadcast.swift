internal import Synchronization

/// Sends each event to all current listeners.
package final class Broadcast<Event: Sendable>: Sendable {
    private struct State {
        var next = 0
        var listeners: [Int: AsyncStream<Event>.Continuation] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    deinit {
        state.withLock { $0.listeners.values.forEach { $0.finish() } }
    }

    /// A stream of all events from now on, beginning with `first`.
    package func stream(startingWith first: Event? = nil) -> AsyncStream<Event> {
        let (stream, continuation) = AsyncStream.makeStream(of: Event.self)
        if let first { continuation.yield(first) }
        let id = state.withLock { state in
            state.next += 1
            state.listeners[state.next] = continuation
            return state.next
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.listeners.removeValue(forKey: id) }
        }
        return stream
    }

    package func tell(_ event: Event) {
        let listeners = state.withLock { Array($0.listeners.values) }
        for listener in listeners { listener.yield(event) }
    }
}
