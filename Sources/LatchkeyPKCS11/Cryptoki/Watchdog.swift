internal import Dispatch
internal import Glibc
internal import Latchkey
internal import Synchronization

/// A thread that checks all watches every 20 milliseconds while any call is in progress, and sleeps otherwise.
///
/// A timer for each call would make signatures slower; this costs one atomic load per call.
final class Watchdog: Sendable {
    static let shared = Watchdog()

    /// The time between checks in microseconds, which is the precision of deadlines.
    private static let period: UInt32 = 20_000
    /// The number of checks without a call before the thread sleeps.
    private static let maximumIdleChecks = 50

    private struct Attended {
        weak var watch: CallWatch?
    }

    private let attended = Mutex<[Attended]>([])
    private let isAsleep = Atomic(false)
    private let alarm = DispatchSemaphore(value: 0)

    private init() {
        BlockingThread.start { self.watch() }
    }

    func attend(_ watch: CallWatch) {
        attended.withLock { attended in
            attended.removeAll { $0.watch == nil }
            attended.append(Attended(watch: watch))
        }
    }

    func wake() {
        guard isAsleep.load(ordering: .sequentiallyConsistent),
            isAsleep.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        alarm.signal()
    }

    private func watch() {
        var idleChecks = 0
        while true {
            if checkAll() {
                idleChecks = 0
            } else {
                idleChecks += 1
            }
            if idleChecks > Self.maximumIdleChecks {
                isAsleep.store(true, ordering: .sequentiallyConsistent)
                // A call that began before the flag was set did not signal: check once more before sleeping.
                if checkAll() {
                    wake()
                }
                alarm.wait()
                idleChecks = 0
            } else {
                usleep(Self.period)
            }
        }
    }

    /// - Returns: Whether any call is in progress.
    private func checkAll() -> Bool {
        let watches = attended.withLock { $0.compactMap(\.watch) }
        let now = ContinuousClock.now
        for watch in watches { watch.check(at: now) }
        return watches.contains { $0.isCalling }
    }
}

/// The current Cryptoki call of a thread and its deadline.
final class CallWatch: Sendable {
    private enum State {
        case idle
        case calling(function: String, deadline: ContinuousClock.Instant)
        /// The deadline passed and the call has not returned.
        case overdue
    }

    private let state = Mutex(State.idle)
    private let handler = Mutex<(@Sendable (_ function: String) -> Void)?>(nil)

    init() { Watchdog.shared.attend(self) }

    /// Sets a handler that the watchdog's thread calls once for each call that exceeds its deadline.
    ///
    /// The call does not end while the handler runs, even if the module returns, so that the handler never affects the next
    /// call. The handler must be fast, and must not use this watch.
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

    /// Whether a call is in progress and not overdue.
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
