import HTTPTypes
import Latchkey
import LatchkeyOAuth
import Synchronization

/// A transport that measures the time of requests.
struct MeasuredTransport: HTTPTransport {
    let inner: any HTTPTransport
    let waiting: Waiting

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        let start = ContinuousClock.now
        defer { waiting.add(since: start) }
        return try await inner.send(request, body: body)
    }
}

/// The number and total time of waits.
final class Waiting: Sendable {
    private let state = Mutex((calls: 0, time: Duration.zero))

    /// The waits since the last call.
    func take() -> (calls: Int, time: Duration) {
        state.withLock { state in
            defer { state = (0, .zero) }
            return state
        }
    }

    func add(since start: ContinuousClock.Instant) {
        let time = ContinuousClock.now - start
        state.withLock { state in
            state.calls += 1
            state.time += time
        }
    }
}
