internal import Dispatch
internal import Glibc
internal import Synchronization

/// A thread of the operating system for calls that block, which must not block Swift's cooperative
/// pool.
///
/// Runs queued work in order. Can be an actor's executor. Ends when its owner is released and the
/// queue is empty. Blocks SIGPIPE, so that a library that writes to a closed socket can't end the
/// process.
package final class BlockingThread: SerialExecutor {
    private let queue: WorkQueue
    /// Whether the system started a thread. Otherwise a thread of Dispatch does the work.
    package let hasOwnThread: Bool

    /// - Parameters:
    ///   - wait: Blocks until `wake` is called, for a thread that also serves a descriptor between
    ///     its work. May return earlier.
    ///   - wake: Ends `wait`, or the next `wait` if none is in progress. Called on any thread.
    package init(wait: @escaping @Sendable () -> Void, wake: @escaping @Sendable () -> Void) {
        let queue = WorkQueue(wait: wait, wake: wake)
        self.queue = queue
        hasOwnThread = Self.start { queue.serve() }
        if !hasOwnThread { DispatchQueue(label: "org.latchkey.blocking").async { queue.serve() } }
    }

    package convenience init() {
        let arrivals = DispatchSemaphore(value: 0)
        self.init {
            arrivals.wait()
        } wake: {
            arrivals.signal()
        }
    }

    deinit { queue.close() }

    /// Runs `work` on the thread and waits for its result. A cancelled task waits too.
    package func run<R: Sendable, E: Error>(_ work: @escaping @Sendable () throws(E) -> R)
        async throws(E) -> R
    {
        let result: Result<R, E> = await withUnsafeContinuation { continuation in
            enqueue { continuation.resume(returning: Result { () throws(E) in try work() }) }
        }
        return try result.get()
    }

    /// Runs `work` on the thread after the queued work. Does not wait for it.
    package func enqueue(_ work: @escaping @Sendable () -> Void) { queue.append(work) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.append { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

extension BlockingThread {
    /// Does `work` on a new thread, which ends with it.
    ///
    /// - Returns: `false` if the system can't start a thread; `work` is then not done.
    @discardableResult
    package static func start(_ work: @escaping @Sendable () -> Void) -> Bool {
        var thread = pthread_t()
        let body = Unmanaged.passRetained(ThreadBody(work))
        let status = pthread_create(
            &thread, nil,
            { argument in
                if let argument {
                    Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run()
                }
                return nil
            }, body.toOpaque())
        guard status == 0 else {
            body.release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    /// Runs `work` on a new thread, and blocks the calling thread until `work` has returned.
    ///
    /// - Parameters:
    ///   - limit: The maximum wait, at most a day.
    ///   - unstarted: Called in place of `work` if the system can't start a thread.
    /// - Returns: nil after `limit`, and `work` continues; nil without a thread.
    package static func run<R: Sendable>(
        within limit: Duration, unstarted: () -> Void, _ work: @escaping @Sendable () -> R
    ) -> R? {
        let completion = Completion<R>()
        let isStarted = start {
            let result = work()
            completion.result.withLock { $0 = result }
            completion.signal.signal()
        }
        guard isStarted else {
            unstarted()
            return nil
        }
        let (seconds, attoseconds) = min(max(limit, .zero), .seconds(86_400)).components
        let nanoseconds = Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000)
        _ = completion.signal.wait(timeout: .now() + .nanoseconds(nanoseconds))
        return completion.result.withLock { $0 }
    }

    private final class Completion<R: Sendable>: Sendable {
        let result = Mutex<R?>(nil)
        let signal = DispatchSemaphore(value: 0)
    }

    private final class ThreadBody: Sendable {
        private let work: @Sendable () -> Void

        init(_ work: @escaping @Sendable () -> Void) { self.work = work }

        func run() {
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGPIPE)
            pthread_sigmask(SIG_BLOCK, &signals, nil)
            work()
        }
    }
}

/// The work of a ``BlockingThread``; shared with the thread itself, which outlives its owner until
/// the work is done.
private final class WorkQueue: Sendable {
    private struct State {
        var work: [@Sendable () -> Void] = []
        var isClosed = false
    }

    private let state = Mutex(State())
    private let wait: @Sendable () -> Void
    private let wake: @Sendable () -> Void

    init(wait: @escaping @Sendable () -> Void, wake: @escaping @Sendable () -> Void) {
        self.wait = wait
        self.wake = wake
    }

    func append(_ work: @escaping @Sendable () -> Void) {
        state.withLock { $0.work.append(work) }
        wake()
    }

    func close() {
        state.withLock { $0.isClosed = true }
        wake()
    }

    /// Runs the work until the queue is closed and empty.
    func serve() {
        while true {
            let (batch, isClosed) = state.withLock { state in
                defer { state.work = [] }
                return (state.work, state.isClosed)
            }
            for work in batch { work() }
            if !batch.isEmpty { continue }
            if isClosed { return }
            wait()
        }
    }
}
