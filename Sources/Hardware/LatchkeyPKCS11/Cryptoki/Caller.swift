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

/// The thread that makes all calls for one token. A call that waits for a touch blocks for seconds;
/// a hanging call, forever.
///
/// Jobs run in order. If a call exceeds its deadline, its job fails; all later jobs fail too,
/// unless the module can be restarted. Cancelling a task ends its wait immediately; its call
/// continues, since Cryptoki can't interrupt one.
final class TokenThread: Sendable {
    /// Handles a call that exceeded its deadline: records it for the module, and returns a closure
    /// that makes the call return (by killing the module's process), so that the thread can be used
    /// again; nil if that is impossible.
    typealias Expiry = @Sendable (_ function: String) -> (@Sendable () -> Void)?

    private struct State {
        /// The first one is the oldest.
        var jobs: [any TokenJob] = []
        var current: (any TokenJob)?
        /// Why no more jobs are accepted.
        var refusal: CryptokiError?
    }

    /// The watch for the calls of this thread.
    let watch = CallWatch()
    private let thread = BlockingThread()
    private let state = Mutex(State())
    private let onExpiry: Expiry

    init(onExpiry: @escaping Expiry) {
        self.onExpiry = onExpiry
        if !thread.hasOwnThread {
            let reason = "the system could not start a thread for the token"
            state.withLock { $0.refusal = CryptokiError(.unresponsive, reason: reason) }
        }
        watch.onExpiry { [weak self] function in self?.expire(function) }
    }

    /// Runs `work` on the thread.
    func run<R: Sendable>(
        _ work: @escaping @Sendable () throws(CryptokiError) -> R
    ) async throws(CryptokiError) -> R {
        let job = AwaitedJob(work)
        let outcome = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                job.deliver(to: continuation)
                append(job)
            }
        } onCancel: {
            job.fail(.cancelled)
        }
        return try outcome.get()
    }

    /// Runs `work` after the queued work, without waiting for it.
    func enqueue(_ work: @escaping @Sendable () -> Void) {
        append(AwaitedJob { () throws(CryptokiError) in work() })
    }

    /// On the thread: whether no task waits for the current work any more.
    var isWorkAbandoned: Bool { state.withLock { $0.current }?.isAbandoned ?? false }

    private func append(_ job: any TokenJob) {
        let refusal: CryptokiError? = state.withLock { state in
            if state.refusal == nil { state.jobs.append(job) }
            return state.refusal
        }
        if let refusal {
            job.fail(refusal)
        } else {
            thread.enqueue { self.runNext() }
        }
    }

    private func runNext() {
        let job: (any TokenJob)? = state.withLock { state in
            state.current = state.jobs.isEmpty ? nil : state.jobs.removeFirst()
            return state.current
        }
        job?.run()
        state.withLock { $0.current = nil }
    }

    /// Called while the watch prevents the end of the call, which the current job made.
    private func expire(_ function: String) {
        let killProcess = onExpiry(function)
        let (current, stranded): ((any TokenJob)?, [any TokenJob]) = state.withLock { state in
            guard killProcess == nil else { return (state.current, []) }
            state.refusal = .unresponsive(by: function)
            defer { state.jobs = [] }
            return (state.current, state.jobs)
        }
        for job in stranded { job.fail(.unresponsive(by: function)) }
        // First, because the job must fail with the timeout and not with the result of the kill.
        current?.fail(.timedOut(in: function))
        killProcess?()
    }
}

extension CryptokiError {
    static func unresponsive(by function: String) -> CryptokiError {
        CryptokiError(
            .unresponsive, function: function,
            reason: "the module hangs: an earlier call in this process never returned")
    }

    static func timedOut(in function: String) -> CryptokiError {
        CryptokiError(.timedOut, function: function, reason: "the module did not answer in time")
    }

    static var cancelled: CryptokiError {
        CryptokiError(.cancelled, reason: "the operation was cancelled")
    }
}

/// A job for a ``TokenThread``, without the type of its result.
private protocol TokenJob: Sendable {
    /// Does the work, unless no task waits for it any more.
    func run()
    /// Ends the wait with an error. A later result of the work is ignored.
    func fail(_ error: CryptokiError)
    /// Whether no task waits any more.
    var isAbandoned: Bool { get }
}

/// A job and the task that waits for it. The first of the work itself, the watchdog, and
/// cancellation ends the wait.
private final class AwaitedJob<R: Sendable>: TokenJob {
    typealias Outcome = Result<R, CryptokiError>

    private struct State {
        var continuation: UnsafeContinuation<Outcome, Never>?
        var outcome: Outcome?
    }

    private let state = Mutex(State())
    private let work: @Sendable () throws(CryptokiError) -> R

    init(_ work: @escaping @Sendable () throws(CryptokiError) -> R) { self.work = work }

    /// Sets the continuation. A job that was cancelled before resumes it immediately.
    func deliver(to continuation: UnsafeContinuation<Outcome, Never>) {
        let outcome: Outcome? = state.withLock { state in
            if state.outcome == nil { state.continuation = continuation }
            return state.outcome
        }
        if let outcome { continuation.resume(returning: outcome) }
    }

    func run() {
        guard !isAbandoned else { return }
        settle(Result { () throws(CryptokiError) in try work() })
    }

    func fail(_ error: CryptokiError) { settle(.failure(error)) }

    var isAbandoned: Bool { state.withLock { $0.outcome != nil } }

    private func settle(_ outcome: Outcome) {
        let waiting: UnsafeContinuation<Outcome, Never>? = state.withLock { state in
            guard state.outcome == nil else { return nil }
            state.outcome = outcome
            defer { state.continuation = nil }
            return state.continuation
        }
        waiting?.resume(returning: outcome)
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

/// Blocks the thread.
func usleep(_ duration: Duration) {
    let (seconds, attoseconds) = duration.components
    usleep(UInt32(clamping: seconds * 1_000_000 + attoseconds / 1_000_000_000_000))
}
