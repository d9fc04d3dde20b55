import HTTPTypes
import Latchkey
import LatchkeyOAuth

/// A transport that counts, in front of the standard one.
actor CountingTransport: HTTPTransport {
    private let next = CurlTransport(timeout: 10)
    private(set) var count = 0

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (
        HTTPResponse, [UInt8]
    ) {
        count += 1
        return try await next.send(request, body: body)
    }
}
