internal import CPKCS11
internal import Dispatch
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Makes Cryptoki calls on one thread. All calls of a module's functions go through it.
///
/// Each call has a name, a deadline and a check of its answer. A module that hangs is never called
/// again.
struct Caller {
    /// How long a call may take.
    enum Kind {
        /// It moves data.
        case data
        /// The token checks a PIN, and does not wait for the user.
        case proof
        /// The token may wait for the user.
        case person
    }

    let module: Module
    let functions: FunctionList
    let watch: CallWatch
    let deadlines: TokenOptions.Deadlines
    /// The epoch of the module in which the calls are valid: in the next one, a session's handle
    /// may be another token's session. nil for calls that need no session.
    var epoch: Int?
    /// The reader of the token; nil if the module's tokens are not smart cards, and for calls that
    /// need no session.
    var reader: String?

    /// Calls a function and returns its answer.
    ///
    /// - Parameter body: Makes the call; returns nil if the module does not have the function.
    /// - Returns: `CKR_SESSION_HANDLE_INVALID`, without a call, if the module was restarted since
    ///   ``epoch``.
    /// - Throws: `unresponsive`, and `returned(.functionNotSupported)` for a missing function.
    func answer(
        _ function: String, _ kind: Kind = .data,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) -> ReturnValue {
        // The deadline starts after the wait for another thread that restarts the module.
        guard try module.beginCall(waitingAtMost: deadlines.restart, in: epoch) else {
            return .sessionHandleInvalid
        }
        defer { module.endCall() }
        let limit =
            switch kind {
            case .data: deadlines.data
            case .proof: deadlines.proof
            case .person: deadlines.person
            }
        let removal =
            kind == .person
            ? reader.map { RemovalCheck(reader: $0, interval: deadlines.data) } : nil
        guard
            let value = watch.during(
                function, within: limit, endedBy: removal, { body(functions.pointer) })
        else {
            throw CryptokiError(
                .returned(.functionNotSupported), function: function,
                reason: "the module has no such function")
        }
        return ReturnValue(rawValue: value)
    }

    /// Calls a function that must answer `CKR_OK`.
    func callAsFunction(
        _ function: String, _ kind: Kind = .data,
        _ body: (UnsafeMutablePointer<CK_FUNCTION_LIST>) -> CK_RV?
    ) throws(CryptokiError) {
        let value = try answer(function, kind, body)
        guard value == .ok else { throw CryptokiError(value, from: function) }
    }
}

/// A thread that checks all watches every 20 milliseconds while any call is in progress, and sleeps
/// otherwise.
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
            idleChecks = checkAll() ? 0 : idleChecks + 1
            if idleChecks > Self.maximumIdleChecks {
                isAsleep.store(true, ordering: .sequentiallyConsistent)
                // A call that began before the flag was set did not signal: check once more before
                // sleeping.
                if checkAll() { wake() }
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
    private struct Call {
        let number: Int
        let function: String
        let deadline: ContinuousClock.Instant
        let removal: RemovalCheck?
        var nextCheck: ContinuousClock.Instant?
    }

    private struct State {
        /// The call in progress; nil when its deadline has passed.
        var call: Call?
        var calls = 0
    }

    private let state = Mutex(State())
    private let handler = Mutex<(@Sendable (_ function: String) -> Void)?>(nil)

    init() { Watchdog.shared.attend(self) }

    /// Sets a handler that the watchdog's thread calls once for each call that exceeds its
    /// deadline.
    ///
    /// The call does not end while the handler runs, even if the module returns, so that the
    /// handler never affects the next call. The handler must be fast, and must not use this watch.
    func onExpiry(_ handler: @escaping @Sendable (_ function: String) -> Void) {
        self.handler.withLock { $0 = handler }
    }

    /// Makes a call with a deadline.
    ///
    /// - Parameter removal: Ends the call before its deadline if the card is removed.
    func during<R, E: Error>(
        _ function: String, within limit: Duration, endedBy removal: RemovalCheck? = nil,
        _ call: () throws(E) -> R
    ) throws(E) -> R {
        let start = ContinuousClock.now
        state.withLock { state in
            state.calls += 1
            state.call = Call(
                number: state.calls, function: function, deadline: start + limit, removal: removal,
                nextCheck: removal.map { start + $0.interval })
        }
        Watchdog.shared.wake()
        defer { state.withLock { $0.call = nil } }
        return try call()
    }

    /// Whether a call is in progress and not overdue.
    var isCalling: Bool { state.withLock { $0.call != nil } }

    func check(at now: ContinuousClock.Instant) {
        let due: Call? = state.withLock { state in
            guard let call = state.call else { return nil }
            if let removal = call.removal, let next = call.nextCheck, next <= now {
                state.call?.nextCheck = now + removal.interval
                return call
            }
            return call.deadline <= now ? call : nil
        }
        guard let due else { return }
        guard let removal = due.removal, due.deadline > now else { return expire(due.number) }
        BlockingThread.start { [weak self] in
            if CardReset.findsNoCard(in: removal.reader) { self?.expire(due.number) }
        }
    }

    /// Calls the handler if the call has not returned.
    private func expire(_ number: Int) {
        let handler = handler.withLock { $0 }
        state.withLock { state in
            guard let call = state.call, call.number == number else { return }
            state.call = nil
            handler?(call.function)
        }
    }
}

/// Looks for the card during a call that may wait for the user: OpenSC before 0.24 may never return
/// after a removal.
struct RemovalCheck: Sendable {
    let reader: String
    /// The time until the first check, and between checks.
    let interval: Duration
}
