public import HTTPTypes
public import Latchkey
public import LatchkeyOAuth
internal import Synchronization

/// A transport that records every request, and responds from a script or through another transport.
public final class RecordingTransport: HTTPTransport {
    /// A sent request.
    public struct Recording: Sendable {
        /// The request.
        public let request: HTTPRequest
        /// The request's body.
        public let body: [UInt8]

        /// The body as text.
        public var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// The outcome of one request.
    public enum Step: Sendable {
        /// The transport returns this response.
        case respond(HTTPResponse, [UInt8])
        /// The other transport sends the request.
        case forward
        /// The other transport sends the request, but the response is lost and the caller gets this
        /// error.
        case loseResponse(KeystoreError)
        /// The request is not sent and the caller gets this error.
        case fail(KeystoreError)

        /// A response with a JSON body.
        public static func json(_ text: String, status: HTTPResponse.Status = .ok) -> Step {
            .respond(
                HTTPResponse(status: status, headerFields: [.contentType: "application/json"]),
                Array(text.utf8))
        }
    }

    private struct State {
        var steps: ArraySlice<Step>
        var recordings: [Recording] = []
    }

    private let state: Mutex<State>
    private let next: (any HTTPTransport)?

    /// - Parameters:
    ///   - steps: The outcomes of the first requests.
    ///   - next: The transport for forwarded and later requests. Without it, a request without a
    ///     step fails.
    public init(_ steps: [Step] = [], forwardingTo next: (any HTTPTransport)? = nil) {
        state = Mutex(State(steps: steps[...]))
        self.next = next
    }

    /// The requests so far, in order.
    public var recordings: [Recording] { state.withLock { $0.recordings } }

    /// Adds steps for further requests.
    public func append(_ steps: Step...) {
        state.withLock { $0.steps += steps }
    }

    public func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let step = state.withLock { state in
            state.recordings.append(Recording(request: request, body: body))
            return state.steps.popFirst()
        }
        switch step {
        case .respond(let response, let body): return (response, body)
        case .fail(let error): throw error
        case .loseResponse(let error):
            _ = try await forward(request, body: body)
            throw error
        case .forward, nil: return try await forward(request, body: body)
        }
    }

    private func forward(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        guard let next else {
            throw KeystoreError(
                operation: "send a request", code: .failed,
                reason: "the script has no step for \(request.method) \(request.path ?? "")",
                recovery: "Give the script one step for each expected request.")
        }
        return try await next.send(request, body: body)
    }
}

/// Limits the number of concurrent calls; further calls wait in a queue.
///
/// swift-testing starts all tests at once. With hundreds of simulators on two cores, answers would
/// come too late.
actor ConcurrencyLimit {
    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ limit: Int) {
        free = limit
    }

    func run<R: Sendable>(_ body: @Sendable () async throws -> R) async throws -> R {
        await enter()
        defer { leave() }
        return try await body()
    }

    private func enter() async {
        guard free == 0 else {
            free -= 1
            return
        }
        await withCheckedContinuation { waiting.append($0) }
    }

    private func leave() {
        guard waiting.isEmpty else { return waiting.removeFirst().resume() }
        free += 1
    }
}
