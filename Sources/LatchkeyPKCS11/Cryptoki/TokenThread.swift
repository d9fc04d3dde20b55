internal import Latchkey
internal import Synchronization

/// The thread that makes all calls for one token: a touch blocks for seconds and a hang forever.
///
/// Work is done in order. A call that exceeds its deadline fails its work, and all later work unless the module can be
/// restarted. Cancelling a task ends its wait immediately; its call continues, since Cryptoki can't interrupt one.
final class TokenThread: Sendable {
    /// Handles a call that exceeded its deadline: records it for the module, and returns a closure that makes the call return (by
    /// killing the module's process), so that the thread can be used again; nil if that is impossible.
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

    /// Runs `work` on the thread after the queued work, without waiting for it.
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

    /// Called while the watch prevents the end of the call, so that the current job is the one that made the call.
    private func expire(_ function: String) {
        let killProcess = onExpiry(function)
        let (current, stranded): ((any TokenJob)?, [any TokenJob]) = state.withLock { state in
            guard killProcess == nil else { return (state.current, []) }
            state.refusal = .wedged(by: function)
            defer { state.jobs = [] }
            return (state.current, state.jobs)
        }
        for job in stranded { job.fail(.wedged(by: function)) }
        // Before the process is killed, because the job must fail with the timeout and not with the result of that.
        current?.fail(.timedOut(in: function))
        killProcess?()
    }
}

extension CryptokiError {
    static func wedged(by function: String) -> CryptokiError {
        CryptokiError(
            .wedged, function: function, reason: "the module hangs: an earlier call in this process never returned")
    }

    static func timedOut(in function: String) -> CryptokiError {
        CryptokiError(.timedOut, function: function, reason: "the module did not answer in time")
    }

    static var cancelled: CryptokiError { CryptokiError(.cancelled, reason: "it was cancelled") }
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

/// A job and the task that waits for it. The first of the work itself, the watchdog, and cancellation ends the wait.
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
