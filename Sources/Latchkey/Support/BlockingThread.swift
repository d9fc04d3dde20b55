internal import Dispatch
internal import Glibc
internal import Synchronization

/// A thread of the operating system for calls that block, which must not block Swift's cooperative pool.
///
/// Does its work in order. Can be an actor's executor. Ends with its owner, after the work in its queue. SIGPIPE is blocked in
/// it, so that a library that writes to a closed socket can't end the process.
package final class BlockingThread: SerialExecutor {
    private let queue: WorkQueue

    /// - Parameters:
    ///   - wait: Blocks until `wake` is called, for a thread that also serves a descriptor between its work. May return earlier.
    ///   - wake: Ends `wait`, also one that begins later. Called on any thread.
    package init(wait: @escaping @Sendable () -> Void, wake: @escaping @Sendable () -> Void) {
        let queue = WorkQueue(wait: wait, wake: wake)
        self.queue = queue
        Self.start { queue.serve() }
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

    /// Does `work` on the thread and waits for it. A cancelled task waits too.
    package func run<R: Sendable, E: Error>(_ work: @escaping @Sendable () throws(E) -> R) async throws(E) -> R {
        let result: Result<R, E> = await withUnsafeContinuation { continuation in
            enqueue { continuation.resume(returning: Result { () throws(E) in try work() }) }
        }
        return try result.get()
    }

    /// Does `work` on the thread after the queued work, without waiting for it.
    package func enqueue(_ work: @escaping @Sendable () -> Void) { queue.append(work) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.append { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

extension BlockingThread {
    /// Does `work` on a new thread, which ends with it. If the system can't start one, a thread of Dispatch does it.
    package static func start(_ work: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        let body = Unmanaged.passRetained(ThreadBody(work))
        let status = pthread_create(
            &thread, nil,
            { argument in
                if let argument { Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run() }
                return nil
            }, body.toOpaque())
        if status == 0 {
            pthread_detach(thread)
        } else {
            let body = body.takeRetainedValue()
            DispatchQueue(label: "org.latchkey.blocking").async { body.run() }
        }
    }

    /// Does `work` on a new thread, and blocks the calling thread until it has returned.
    ///
    /// - Parameter limit: The maximum wait, at most a day.
    /// - Returns: nil after `limit`; `work` continues.
    package static func run<R: Sendable>(
        within limit: Duration, _ work: @escaping @Sendable () -> R
    ) -> R? {
        let completion = Completion<R>()
        start {
            let result = work()
            completion.result.withLock { $0 = result }
            completion.signal.signal()
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

/// The work of a ``BlockingThread``; shared with the thread itself, which outlives its owner until the work is done.
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

    /// Does the work until the queue is closed and empty.
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
