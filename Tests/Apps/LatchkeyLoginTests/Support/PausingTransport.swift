import HTTPTypes
import Latchkey
import LatchkeyOAuth
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
    private var held: [CheckedContinuation<Bool, Never>] = []

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

    /// Continues the stopped program, so that the test can end.
    func resume() { release(alive: true) }

    /// Lets no more of the stopped program happen: it never hears from the server.
    func die() { release(alive: false) }

    private func release(alive: Bool) {
        held.forEach { $0.resume(returning: alive) }
        held = []
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        guard request.path == path, !isReached else {
            return try await next.send(request, body: body)
        }
        guard remaining == 0 else {
            remaining -= 1
            return try await next.send(request, body: body)
        }
        isReached = true
        if side == .before {
            try await stop()
            return try await next.send(request, body: body)
        }
        let answer = try await next.send(request, body: body)
        try await stop()
        return answer
    }

    private func stop() async throws(KeystoreError) {
        waiting.forEach { $0.resume() }
        waiting = []
        guard await withCheckedContinuation({ held.append($0) }) else {
            throw KeystoreError(
                operation: "reach the server", code: .unavailable, reason: "the program died",
                recovery: "Start again.")
        }
    }
}
