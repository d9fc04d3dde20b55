import HTTPTypes
import Latchkey
import LatchkeyOAuth

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
