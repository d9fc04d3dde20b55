internal import CCurl
internal import Latchkey
internal import Synchronization

/// The connections of a transport, and a thread that serves all its requests. Connections are kept
/// for later requests for a limited time.
final class CurlSession: Sendable {
    private let requests: CurlRequests
    private let thread: BlockingThread

    /// Loads libcurl. Blocks.
    init() throws(CommonError) {
        let requests = try CurlRequests(CurlLibrary.loaded.get())
        self.requests = requests
        thread = BlockingThread {
            requests.serve()
        } wake: {
            requests.wake()
        }
    }

    /// Sends a request and waits for the response, at most until the exchange's deadline or the
    /// task's cancellation.
    func send(_ exchange: CurlExchange) async -> CurlExchange.Outcome {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                thread.enqueue { [requests] in
                    requests.begin(exchange) { continuation.resume(returning: $0) }
                }
            }
        } onCancel: {
            thread.enqueue { [requests] in requests.cancel(exchange) }
        }
    }
}

/// The requests in progress. Used only on the session's thread, except ``wake()``.
private final class CurlRequests: @unchecked Sendable {
    typealias Answer = @Sendable (CurlExchange.Outcome) -> Void

    private let library: CurlLibrary
    /// Replaced only on the session's thread, and under ``replacement``.
    private var multi: CurlLibrary.Handle
    private let replacement = Mutex(())
    /// When the kept connections are closed; nil if there are none.
    private var idleEnd: ContinuousClock.Instant?
    private var running: [CurlLibrary.Handle: (exchange: CurlExchange, answer: Answer)] = [:]

    init(_ library: CurlLibrary) throws(CommonError) {
        guard let multi = Self.makeMulti(library) else {
            throw CommonError(
                code: .unavailable,
                reason: "the system has no memory or file descriptors left for a connection",
                recovery: "End other programs, then try again.")
        }
        self.library = library
        self.multi = multi
    }

    /// - Returns: nil if the system has no memory, or no descriptors for the wake-up, without which
    ///   ``serve()`` would not notice new work.
    private static func makeMulti(_ library: CurlLibrary) -> CurlLibrary.Handle? {
        guard let multi = library.multiInit() else { return nil }
        if library.multiWakeup(multi) == CURLM_OK { return multi }
        _ = library.multiCleanup(multi)
        return nil
    }

    deinit {
        for handle in running.keys { release(handle) }
        _ = library.multiCleanup(multi)
    }

    func begin(_ exchange: CurlExchange, _ answer: @escaping Answer) {
        guard !exchange.isCancelled else { return answer(.failed(.init(cause: .cancelled))) }
        guard let pointer = library.easyInit() else {
            return answer(.failed(.init(cause: .outOfMemory)))
        }
        let handle = CurlHandle(library: library, pointer: pointer)
        do throws(CurlHandle.RefusedOption) {
            try exchange.configure(handle)
        } catch {
            let outcome = exchange.outcome(error.code, handle)
            library.easyCleanup(pointer)
            return answer(outcome)
        }
        guard library.multiAdd(multi, pointer) == CURLM_OK else {
            library.easyCleanup(pointer)
            return answer(.failed(.init(cause: .outOfMemory)))
        }
        running[pointer] = (exchange, answer)
    }

    func cancel(_ exchange: CurlExchange) {
        exchange.isCancelled = true
        guard let (handle, entry) = running.first(where: { $0.value.exchange === exchange }) else {
            return
        }
        release(handle)
        entry.answer(.failed(.init(cause: .cancelled)))
    }

    /// Advances the requests, and waits until there is more to do.
    func serve() {
        var count: Int32 = 0
        _ = library.multiPerform(multi, &count)
        while let message = library.multiInfoRead(multi, &count) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle
            else { continue }
            let code = message.pointee.data.result
            guard let (exchange, answer) = running[handle] else { continue }
            let outcome = exchange.outcome(code, CurlHandle(library: library, pointer: handle))
            release(handle)
            answer(outcome)
        }
        var wait = Duration.seconds(3600)
        if running.isEmpty, let idleEnd {
            wait = ContinuousClock.now.duration(to: idleEnd)
            if wait <= .zero { closeConnections() }
        }
        // It returns earlier for a wake-up, and for the deadlines of the requests.
        _ = library.multiPoll(
            multi, nil, 0, Int32(clamping: Int(max(wait, .zero) / .milliseconds(1)) + 1), nil)
    }

    /// libcurl itself closes idle connections only when the next request begins.
    private func closeConnections() {
        idleEnd = nil
        guard let fresh = Self.makeMulti(library) else { return }
        let old = multi
        // A wake-up of the old one is not lost: the new one has been woken.
        replacement.withLock { _ in multi = fresh }
        _ = library.multiCleanup(old)
    }

    func wake() { replacement.withLock { _ in _ = library.multiWakeup(multi) } }

    private func release(_ handle: CurlLibrary.Handle) {
        guard let (exchange, _) = running.removeValue(forKey: handle) else { return }
        _ = library.multiRemove(multi, handle)
        library.easyCleanup(handle)
        idleEnd = .now + .seconds(exchange.limits.idleSeconds)
    }
}
