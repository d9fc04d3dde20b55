internal import Dispatch
internal import Glibc
internal import Synchronization

/// An operating system thread that makes all calls for one token: a touch blocks for seconds and a hang forever, which must not
/// block Swift's cooperative pool.
///
/// Work is done in order. A call that exceeds its deadline fails its work, and all later work unless the module can be
/// restarted. Cancelling a task ends its wait immediately; its call continues, since Cryptoki can't interrupt one.
final class TokenThread: Sendable {
    /// Handles a call that exceeded its deadline: records it for the module, and returns a closure that makes the call return (by
    /// killing the module's process), so that the thread can be used again; nil if that is impossible.
    typealias Expiry = @Sendable (_ function: String) -> (@Sendable () -> Void)?

    private let queue: JobQueue

    /// The watch for the calls of this thread.
    var watch: CallWatch { queue.watch }

    init(onExpiry: @escaping Expiry) {
        let queue = JobQueue(onExpiry: onExpiry)
        self.queue = queue
        if !OperatingSystemThread.start({ queue.serve() }) {
            queue.close(CryptokiError(.wedged, reason: "the system could not start a thread for the token"))
        }
    }

    deinit { queue.close(CryptokiError(.cancelled, reason: "the token is no longer used")) }

    /// Runs `work` on the thread.
    func run<R: Sendable>(
        _ work: @escaping @Sendable () -> Result<R, CryptokiError>
    ) async throws(CryptokiError) -> R {
        let job = AwaitedJob(work)
        let outcome = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                job.deliver(to: continuation)
                queue.append(job)
            }
        } onCancel: {
            job.cancel()
        }
        return try outcome.get()
    }

    /// Runs `work` on the thread after the queued work, without waiting for it.
    func enqueue(_ work: @escaping @Sendable () -> Void) {
        queue.append(AwaitedJob { .success(work()) })
    }

    /// On the thread: whether no task waits for the current work any more.
    var isWorkAbandoned: Bool { queue.isWorkAbandoned }
}

/// The jobs of a ``TokenThread``; shared with the thread itself, which may outlive its owner.
final class JobQueue: Sendable {
    private struct State {
        /// The last one is the oldest.
        var jobs: [any TokenJob] = []
        var current: (any TokenJob)?
        /// Why no more jobs are accepted.
        var closed: CryptokiError?
    }

    let watch = CallWatch()
    private let state = Mutex(State())
    private let arrivals = DispatchSemaphore(value: 0)
    private let onExpiry: TokenThread.Expiry

    init(onExpiry: @escaping TokenThread.Expiry) {
        self.onExpiry = onExpiry
        watch.onExpiry { [weak self] function in self?.expire(function) }
    }

    func append(_ job: any TokenJob) {
        let refusal: CryptokiError? = state.withLock { state in
            if state.closed == nil { state.jobs.insert(job, at: 0) }
            return state.closed
        }
        if let refusal {
            job.fail(refusal)
        } else {
            arrivals.signal()
        }
    }

    /// Accepts no more jobs. The thread still does the queued jobs, or they fail.
    ///
    /// - Parameter isStuck: Whether the thread will never do the queued jobs.
    func close(_ reason: CryptokiError, isStuck: Bool = false) {
        let stranded: [any TokenJob] = state.withLock { state in
            state.closed = state.closed ?? reason
            guard isStuck else { return [] }
            defer { state.jobs = [] }
            return state.jobs
        }
        for job in stranded { job.fail(reason) }
        arrivals.signal()
    }

    /// The thread's loop: does the jobs until the queue is closed and empty.
    func serve() {
        while true {
            arrivals.wait()
            let next: (any TokenJob)? = state.withLock { state in
                state.current = state.jobs.popLast()
                return state.current
            }
            if let next {
                next.run()
            } else if state.withLock({ $0.closed != nil }) {
                return
            }
        }
    }

    var isWorkAbandoned: Bool { state.withLock { $0.current }?.isAbandoned ?? false }

    /// Called while the watch prevents the end of the call, so that the current job is the one that made the call.
    private func expire(_ function: String) {
        let current = state.withLock { $0.current }
        let killProcess = onExpiry(function)
        if killProcess == nil { close(.wedged(by: function), isStuck: true) }
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
}

/// A job for a ``TokenThread``, without the type of its result.
protocol TokenJob: Sendable {
    /// Does the work, unless no task waits for it any more.
    func run()
    /// Ends the wait with an error. A later result of the work is ignored.
    func fail(_ error: CryptokiError)
    /// Whether no task waits any more.
    var isAbandoned: Bool { get }
}

/// A job and the task that waits for it. The first of the work itself, the watchdog, and cancellation ends the wait.
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

    /// Sets the continuation. A job that was cancelled before resumes it immediately.
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

/// A detached thread of the operating system, for blocking C calls. It ends with its work.
enum OperatingSystemThread {
    /// - Returns: Whether the system could start a thread.
    @discardableResult
    static func start(_ work: @escaping @Sendable () -> Void) -> Bool {
        var thread = pthread_t()
        let box = Unmanaged.passRetained(Box(work))
        let status = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, box.toOpaque())
        if status == 0 {
            pthread_detach(thread)
        } else {
            box.release()
        }
        return status == 0
    }

    private final class Box: Sendable {
        private let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) { self.work = work }

        func run() {
            // p11-kit may write to the socket of a killed process; SIGPIPE would end this process.
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGPIPE)
            pthread_sigmask(SIG_BLOCK, &signals, nil)
            work()
        }
    }
}
