internal import CCurl
internal import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// The connections of a transport, and a thread that serves all its requests. Connections are kept
/// for later requests for a limited time.
final class CurlSession: Sendable {
    private let requests: CurlRequests
    private let thread: BlockingThread

    /// Initializes libcurl at its first use. Blocks.
    init() throws(CommonError) {
        guard CurlHandle.isLibraryInitialized, let requests = CurlRequests() else {
            throw CommonError(
                code: .unavailable,
                reason: "the system has no memory or file descriptors left for a connection",
                recovery: "End other programs, then try again.")
        }
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

    /// Replaced only on the session's thread, and under ``replacement``.
    private var multi: UnsafeMutableRawPointer
    private let replacement = Mutex(())
    /// When the kept connections are closed; nil if there are none.
    private var idleEnd: ContinuousClock.Instant?
    private var running: [UnsafeMutableRawPointer: (exchange: CurlExchange, answer: Answer)] = [:]

    init?() {
        guard let multi = Self.makeMulti() else { return nil }
        self.multi = multi
    }

    /// - Returns: nil if the system has no memory, or no descriptors for the wake-up, without which
    ///   ``serve()`` would not notice new work.
    private static func makeMulti() -> UnsafeMutableRawPointer? {
        guard let multi = curl_multi_init() else { return nil }
        if curl_multi_wakeup(multi) == CURLM_OK { return multi }
        _ = curl_multi_cleanup(multi)
        return nil
    }

    deinit {
        for handle in running.keys { release(handle) }
        _ = curl_multi_cleanup(multi)
    }

    func begin(_ exchange: CurlExchange, _ answer: @escaping Answer) {
        guard !exchange.isCancelled else { return answer(.failed(.init(cause: .cancelled))) }
        guard let pointer = curl_easy_init() else {
            return answer(.failed(.init(cause: .outOfMemory)))
        }
        let handle = CurlHandle(pointer: pointer)
        do throws(CurlHandle.RefusedOption) {
            try exchange.configure(handle)
        } catch {
            let outcome = exchange.outcome(error.code, handle)
            curl_easy_cleanup(pointer)
            return answer(outcome)
        }
        guard curl_multi_add_handle(multi, pointer) == CURLM_OK else {
            curl_easy_cleanup(pointer)
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
        _ = curl_multi_perform(multi, &count)
        while let message = curl_multi_info_read(multi, &count) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle
            else { continue }
            let code = message.pointee.data.result
            guard let (exchange, answer) = running[handle] else { continue }
            let outcome = exchange.outcome(code, CurlHandle(pointer: handle))
            release(handle)
            answer(outcome)
        }
        var wait = Duration.seconds(3600)
        if running.isEmpty, let idleEnd {
            wait = ContinuousClock.now.duration(to: idleEnd)
            if wait <= .zero { closeConnections() }
        }
        // It returns earlier for a wake-up, and for the deadlines of the requests.
        _ = curl_multi_poll(
            multi, nil, 0, Int32(clamping: Int(max(wait, .zero) / .milliseconds(1)) + 1), nil)
    }

    /// libcurl itself closes idle connections only when the next request begins.
    private func closeConnections() {
        idleEnd = nil
        guard let fresh = Self.makeMulti() else { return }
        let old = multi
        // A wake-up of the old one is not lost: the new one has been woken.
        replacement.withLock { _ in multi = fresh }
        _ = curl_multi_cleanup(old)
    }

    func wake() { replacement.withLock { _ in _ = curl_multi_wakeup(multi) } }

    private func release(_ handle: UnsafeMutableRawPointer) {
        guard let (exchange, _) = running.removeValue(forKey: handle) else { return }
        _ = curl_multi_remove_handle(multi, handle)
        curl_easy_cleanup(handle)
        idleEnd = .now + .seconds(exchange.limits.idleSeconds)
    }
}
