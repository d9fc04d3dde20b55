public import HTTPTypes
public import Latchkey
internal import Synchronization

/// A transport that remembers every request, and answers from a script or through another transport.
public final class RecordingTransport: HTTPTransport {
    /// A request as it was sent.
    public struct Recording: Sendable {
        /// The request.
        public let request: HTTPRequest
        /// Its body.
        public let body: [UInt8]

        /// The body as text.
        public var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// What happens to one request.
    public enum Step: Sendable {
        /// This response comes back.
        case respond(HTTPResponse, [UInt8])
        /// The request goes through to the other transport.
        case forward
        /// The request goes through to the other transport; its response is lost and the caller gets this error.
        case loseResponse(KeystoreError)
        /// The request does not get out and the caller gets this error.
        case fail(KeystoreError)

        /// A response with a JSON body.
        public static func json(_ text: String, status: HTTPResponse.Status = .ok) -> Step {
            .respond(HTTPResponse(status: status, headerFields: [.contentType: "application/json"]), Array(text.utf8))
        }
    }

    private struct State {
        var steps: ArraySlice<Step>
        var recordings: [Recording] = []
    }

    private let state: Mutex<State>
    private let next: (any HTTPTransport)?

    /// - Parameters:
    ///   - steps: What happens to the first requests, one step each.
    ///   - next: Where later requests and forwarded ones go. Without it, a request for which there is no step fails.
    public init(_ steps: [Step] = [], forwardingTo next: (any HTTPTransport)? = nil) {
        state = Mutex(State(steps: steps[...]))
        self.next = next
    }

    /// Every request so far, in order.
    public var recordings: [Recording] { state.withLock { $0.recordings } }

    /// Adds steps for the requests to come.
    public func append(_ steps: Step...) {
        state.withLock { $0.steps += steps }
    }

    public func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
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

    private func forward(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        guard let next else {
            throw KeystoreError(
                operation: "send a request", code: .failed,
                reason: "the script has no answer to \(request.method) \(request.path ?? "")",
                recovery: "Give the test one step for each request that it expects.")
        }
        return try await next.send(request, body: body)
    }
}
