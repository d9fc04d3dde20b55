internal import Synchronization

/// Knows which Cryptoki call a thread is in and until when it may take.
final class CallWatch: Sendable {
    private enum State {
        case idle
        case calling(function: String, deadline: ContinuousClock.Instant)
        /// The deadline passed and the call has not come back.
        case overdue
    }

    private let state = Mutex(State.idle)
    private let handler = Mutex<(@Sendable (_ function: String) -> Void)?>(nil)

    init() { Watchdog.shared.attend(self) }

    /// Has `handler` called from the watchdog's thread, once for each call whose deadline passes.
    ///
    /// The call does not end while it runs, even when the module comes back meanwhile: what the handler does about the
    /// call never hits the next one. So it must be quick, and must not ask this watch anything.
    func onExpiry(_ handler: @escaping @Sendable (_ function: String) -> Void) {
        self.handler.withLock { $0 = handler }
    }

    func begin(_ function: String, within limit: Duration) {
        let deadline = ContinuousClock.now + limit
        state.withLock { $0 = .calling(function: function, deadline: deadline) }
        Watchdog.shared.wake()
    }

    func end() {
        state.withLock { $0 = .idle }
    }

    /// Whether a call is being made whose end is still awaited.
    var isCalling: Bool {
        state.withLock { if case .calling = $0 { true } else { false } }
    }

    func check(at now: ContinuousClock.Instant) {
        let handler = handler.withLock { $0 }
        state.withLock { state in
            guard case .calling(let function, let deadline) = state, deadline <= now else { return }
            state = .overdue
            handler?(function)
        }
    }
}
