import HTTPTypes
import Latchkey
import LatchkeyHTTP
import Logging

/// Logs each exchange with the server: method, path without query, and status; never a header or a body.
struct LoggingTransport: HTTPTransport {
    let log: Logger
    private let transport = AsyncHTTPTransport()

    init(log: Logger) {
        self.log = log
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let (response, bytes) = try await transport.send(request, body: body)
        let path = request.path?.prefix { $0 != "?" } ?? ""
        log.debug("\(request.method) \(path)", metadata: ["status": "\(response.status.code)"])
        return (response, bytes)
    }
}
