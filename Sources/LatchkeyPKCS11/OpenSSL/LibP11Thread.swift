internal import Dispatch
internal import Synchronization

/// Threads for libp11's calls, each with a deadline.
///
/// libp11 0.4.12 answers a failing `C_OpenSession` by waiting for ever (`reference/pkcs11.md` section 1.2 a), and a
/// module may hang by itself. So its calls are made on a thread of their own, which is left behind when it does not come
/// back; from then on libp11 is not called for that module any more.
enum LibP11Thread {
    /// Does `work` on a thread of its own and waits for it on this one, which must be one that may block.
    ///
    /// - Parameters:
    ///   - name: What is being done, for the error.
    ///   - module: One that runs in this process. It is not finalised before `work` has come back.
    /// - Throws: What `work` answers; `timedOut`, and `wedged` ever after.
    static func run<R: Sendable>(
        _ name: String, in module: Module, within limit: Duration,
        _ work: @escaping @Sendable () -> Result<R, CryptokiError>
    ) throws(CryptokiError) -> R {
        guard !hanging.withLock({ $0.contains(module.path) }) else { throw .wedged(by: name) }
        _ = try module.beginCall(patience: limit)
        let errand = Errand<R>()
        let isStarted = OperatingSystemThread.start {
            let outcome = work()
            module.endCall()
            errand.outcome.withLock { $0 = outcome }
            errand.end.signal()
        }
        guard isStarted else {
            module.endCall()
            throw CryptokiError(.wedged, reason: "the system has no thread for libp11")
        }
        guard errand.end.wait(timeout: .now() + interval(limit)) == .success,
            let outcome = errand.outcome.withLock({ $0 })
        else {
            hanging.withLock { _ = $0.insert(module.path) }
            throw .timedOut(in: name)
        }
        return try outcome.get()
    }

    /// At most a day, which is for ever here and no number overflows.
    private static func interval(_ limit: Duration) -> DispatchTimeInterval {
        let (seconds, attoseconds) = min(max(limit, .zero), .seconds(86_400)).components
        return .nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
    }

    private static let hanging = Mutex<Set<String>>([])

    private final class Errand<R: Sendable>: Sendable {
        let outcome = Mutex<Result<R, CryptokiError>?>(nil)
        let end = DispatchSemaphore(value: 0)
    }
}
