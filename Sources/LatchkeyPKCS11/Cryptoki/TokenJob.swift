internal import Synchronization

/// A piece of work for a ``TokenThread``, without the type of its result.
protocol TokenJob: Sendable {
    /// Does the work, unless nobody waits for it any more.
    func run()
    /// Tells who waits that it won't be done. What the work still does is nobody's.
    func fail(_ error: CryptokiError)
    /// Whether nobody waits any more.
    var isAbandoned: Bool { get }
}

/// A piece of work and the task that waits for it: waiting, settled once by whoever comes first (the work itself, the
/// watchdog, or cancellation).
final class AwaitedJob<R: Sendable>: TokenJob {
    typealias Outcome = Result<R, CryptokiError>

    private enum State {
        case new
        case waiting(UnsafeContinuation<Outcome, Never>)
        case settled(Outcome)
        case delivered
    }

    private let state = Mutex(State.new)
    private let work: @Sendable () -> Outcome

    init(_ work: @escaping @Sendable () -> Outcome) { self.work = work }

    /// Remembers who waits. A job that was cancelled before this answers at once.
    func deliver(to continuation: UnsafeContinuation<Outcome, Never>) {
        let outcome: Outcome? = state.withLock { state in
            if case .settled(let outcome) = state {
                state = .delivered
                return outcome
            }
            state = .waiting(continuation)
            return nil
        }
        if let outcome { continuation.resume(returning: outcome) }
    }

    func run() {
        guard !isAbandoned else { return }
        settle(work())
    }

    func fail(_ error: CryptokiError) { settle(.failure(error)) }

    func cancel() { fail(CryptokiError(.cancelled, reason: "it was cancelled")) }

    var isAbandoned: Bool {
        state.withLock { state in
            switch state {
            case .new, .waiting: false
            case .settled, .delivered: true
            }
        }
    }

    private func settle(_ outcome: Outcome) {
        let waiting: UnsafeContinuation<Outcome, Never>? = state.withLock { state in
            switch state {
            case .new:
                state = .settled(outcome)
                return nil
            case .waiting(let continuation):
                state = .delivered
                return continuation
            case .settled, .delivered:
                return nil
            }
        }
        waiting?.resume(returning: outcome)
    }
}
