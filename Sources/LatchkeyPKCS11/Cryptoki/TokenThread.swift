internal import Dispatch
internal import Synchronization

/// One operating system thread that makes all calls for one token: a touch blocks for seconds, a hang for ever, and
/// neither may hold up Swift's cooperative pool.
///
/// Work is done in order. A call that passes its deadline fails the work that made it, and, unless the module can be
/// brought back, all work that comes later. Cancelling a task frees the task at once; the call it was in goes on
/// until it returns, since Cryptoki can't interrupt one.
final class TokenThread: Sendable {
    /// What is done about a call whose deadline passed: told the function, it notes what that means for the module, and
    /// returns what brings the call back after all (killing the process that it waits for), so that the thread stays
    /// in use; nil where nothing does.
    typealias Expiry = @Sendable (_ function: String) -> (@Sendable () -> Void)?

    private let line: JobLine

    /// The calls that the thread makes go through this watch.
    var watch: CallWatch { line.watch }

    init(onExpiry: @escaping Expiry) {
        let line = JobLine(onExpiry: onExpiry)
        self.line = line
        if !OperatingSystemThread.start({ line.serve() }) {
            line.close(CryptokiError(.wedged, reason: "the system has no thread for the token"))
        }
    }

    deinit { line.close(CryptokiError(.cancelled, reason: "its token was let go")) }

    /// Runs `work` on the thread.
    func run<R: Sendable>(
        _ work: @escaping @Sendable () -> Result<R, CryptokiError>
    ) async throws(CryptokiError) -> R {
        let job = AwaitedJob(work)
        let outcome = await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                job.deliver(to: continuation)
                line.append(job)
            }
        } onCancel: {
            job.cancel()
        }
        return try outcome.get()
    }

    /// Runs `work` on the thread after what is in line, and lets nobody wait for it.
    func enqueue(_ work: @escaping @Sendable () -> Void) {
        line.append(AwaitedJob { .success(work()) })
    }

    /// On the thread: whether nobody waits for the work that is being done.
    var isWorkAbandoned: Bool { line.isWorkAbandoned }
}
