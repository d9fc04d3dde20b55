internal import CCurl
internal import Latchkey

/// The connections of a transport, and a thread that serves all its requests. Connections are kept for later requests.
final class CurlSession: Sendable {
    private let requests: CurlRequests
    private let thread: BlockingThread

    /// Loads libcurl. Blocks.
    init() throws(KeystoreError) {
        let requests = try CurlRequests(CurlLibrary.loaded.get())
        self.requests = requests
        thread = BlockingThread {
            requests.serve()
        } wake: {
            requests.wake()
        }
    }

    /// Sends a request and waits for the response, at most until the exchange's deadline or the task's cancellation.
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
    private let multi: CurlLibrary.Handle
    private var running: [CurlLibrary.Handle: (exchange: CurlExchange, answer: Answer)] = [:]

    init(_ library: CurlLibrary) throws(KeystoreError) {
        // Without descriptors for the wake-up, `serve` would not notice new work.
        guard let multi = library.multiInit(), library.multiWakeup(multi) == CURLM_OK else {
            throw KeystoreError(
                code: .unavailable, reason: "the system has no memory or file descriptors left for a connection",
                recovery: "End other programs, then try again.")
        }
        self.library = library
        self.multi = multi
    }

    deinit {
        for handle in running.keys { release(handle) }
        _ = library.multiCleanup(multi)
    }

    func begin(_ exchange: CurlExchange, _ answer: @escaping Answer) {
        guard !exchange.isCancelled else { return answer(.failed(.init(cause: .cancelled))) }
        guard let pointer = library.easyInit() else { return answer(.failed(.init(cause: .outOfMemory))) }
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
        guard let (handle, entry) = running.first(where: { $0.value.exchange === exchange }) else { return }
        release(handle)
        entry.answer(.failed(.init(cause: .cancelled)))
    }

    /// Advances the requests, and waits until there is more to do.
    func serve() {
        var count: Int32 = 0
        _ = library.multiPerform(multi, &count)
        while let message = library.multiInfoRead(multi, &count) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle else { continue }
            let code = message.pointee.data.result
            guard let (exchange, answer) = running[handle] else { continue }
            let outcome = exchange.outcome(code, CurlHandle(library: library, pointer: handle))
            release(handle)
            answer(outcome)
        }
        // It returns earlier for a wake-up, and for the deadlines of the requests.
        _ = library.multiPoll(multi, nil, 0, 3_600_000, nil)
    }

    func wake() { _ = library.multiWakeup(multi) }

    private func release(_ handle: CurlLibrary.Handle) {
        _ = library.multiRemove(multi, handle)
        library.easyCleanup(handle)
        running[handle] = nil
    }
}
