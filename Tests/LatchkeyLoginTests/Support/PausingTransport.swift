import HTTPTypes
import Latchkey
import Synchronization

/// A transport that stops for good at one request, as if the program were killed there.
actor PausingTransport: HTTPTransport {
    /// On which side of the server the program dies.
    enum Side {
        /// Before the request gets out.
        case before
        /// After the server has done what it was asked.
        case after
    }

    private let next: any HTTPTransport
    private let path: String
    private let side: Side
    private var remaining: Int
    private var isReached = false
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var held: [CheckedContinuation<Void, Never>] = []

    /// - Parameters:
    ///   - path: The path of the request.
    ///   - skip: How many requests for that path pass first.
    init(_ next: any HTTPTransport, at path: String, skip: Int = 0, _ side: Side) {
        self.next = next
        self.path = path
        self.side = side
        remaining = skip
    }

    /// Waits until the program has stopped.
    func reached() async {
        if !isReached { await withCheckedContinuation { waiting.append($0) } }
    }

    /// Lets the stopped program go on, so that the test can end.
    func resume() {
        held.forEach { $0.resume() }
        held = []
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        guard request.path == path, !isReached else { return try await next.send(request, body: body) }
        guard remaining == 0 else {
            remaining -= 1
            return try await next.send(request, body: body)
        }
        isReached = true
        if side == .before {
            await stop()
            return try await next.send(request, body: body)
        }
        let answer = try await next.send(request, body: body)
        await stop()
        return answer
    }

    private func stop() async {
        waiting.forEach { $0.resume() }
        waiting = []
        await withCheckedContinuation { held.append($0) }
    }
}
