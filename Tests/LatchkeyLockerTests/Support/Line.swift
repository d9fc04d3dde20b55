import HTTPTypes
import Latchkey
import LatchkeyHTTP
import Synchronization

/// The network between a program and its server: it can be down, and break at any one request.
final class Line: HTTPTransport {
    /// What happens to a request.
    enum Fault: Sendable {
        /// It does not get out.
        case cut
        /// The server does what it is asked, and its answer is lost.
        case lost
        /// It never gets out and nobody hears of that, as when the program is killed before it.
        case stopBefore
        /// The server does what it is asked, and nobody hears of that, as when the program is killed after it.
        case stopAfter
        /// The server seems to answer this.
        case answer(status: Int, body: String)
    }

    struct Sent: Sendable {
        let path: String
        let body: String
    }

    private struct State {
        var isDown = false
        var faults: [(place: String, isSuffix: Bool, skip: Int, fault: Fault)] = []
        var sent: [Sent] = []
        var stopped: [CheckedContinuation<Void, Never>] = []
        var isReached = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var isOver = false
    }

    private let next = AsyncHTTPTransport()
    private let state = Mutex(State())

    var isDown: Bool {
        get { state.withLock { $0.isDown } }
        set { state.withLock { $0.isDown = newValue } }
    }

    /// Everything that was tried to be sent.
    var sent: [Sent] { state.withLock { $0.sent } }

    /// - Parameters:
    ///   - suffix: How the path ends.
    ///   - skip: How many such requests pass before.
    func fail(at suffix: String, skip: Int = 0, _ fault: Fault) {
        state.withLock { $0.faults.append((suffix, true, skip, fault)) }
    }

    /// - Parameter text: What the path has in it.
    func fail(containing text: String, _ fault: Fault) {
        state.withLock { $0.faults.append((text, false, 0, fault)) }
    }

    /// Waits until a program has stopped at a request.
    func reached() async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if !state.isReached { state.waiting.append(continuation) }
                return state.isReached
            }
            if isReached { continuation.resume() }
        }
    }

    /// Ends stopped programs: they hear that there is no network.
    func release() {
        let stopped = state.withLock { state in
            defer { state.stopped = [] }
            state.isReached = false
            return state.stopped
        }
        for continuation in stopped { continuation.resume() }
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let path = request.path ?? ""
        let (isDown, fault) = state.withLock { state in
            state.sent.append(Sent(path: path, body: String(decoding: body, as: UTF8.self)))
            guard
                let index = state.faults.firstIndex(where: {
                    $0.isSuffix ? path.hasSuffix($0.place) : path.contains($0.place)
                })
            else {
                return (state.isDown, Fault?.none)
            }
            guard state.faults[index].skip == 0 else {
                state.faults[index].skip -= 1
                return (state.isDown, nil)
            }
            return (state.isDown, state.faults.remove(at: index).fault)
        }
        guard !isDown else { throw Self.noNetwork }
        switch fault {
        case nil: return try await next.send(request, body: body)
        case .cut: throw Self.noNetwork
        case .lost:
            _ = try await next.send(request, body: body)
            throw Self.noNetwork
        case .stopBefore: try await stop()
        case .stopAfter:
            _ = try await next.send(request, body: body)
            try await stop()
        case .answer(let status, let text):
            return (HTTPResponse(status: .init(code: status)), Array(text.utf8))
        }
        throw Self.noNetwork
    }

    private func stop() async throws(KeystoreError) {
        await withCheckedContinuation { continuation in
            let waiting = state.withLock { state in
                state.stopped.append(continuation)
                state.isReached = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for waiter in waiting { waiter.resume() }
        }
    }

    private static let noNetwork = KeystoreError(
        operation: "reach the server", code: .unavailable, reason: "the cable is out", recovery: "Put it in.")
}
