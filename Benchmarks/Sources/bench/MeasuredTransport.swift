import HTTPTypes
import Latchkey

/// A transport that tells what its requests took.
struct MeasuredTransport: HTTPTransport {
    let inner: any HTTPTransport
    let waiting: Waiting

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let start = ContinuousClock.now
        defer { waiting.add(since: start) }
        return try await inner.send(request, body: body)
    }
}
