import HTTPTypes
import Latchkey
import LatchkeyHTTP
import Logging

/// How the tool reaches servers. Logs each exchange: method, path without query, and status; never a header or a body. Says
/// that it waits, where that takes longer than a second.
struct ServerTransport: HTTPTransport {
    let log: Logger
    let console: Console
    private let transport = AsyncHTTPTransport()

    init(log: Logger, console: Console) {
        self.log = log
        self.console = console
    }

    func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let waiting = Task { [console] in
            try await Task.sleep(for: .seconds(1))
            console.say("Waiting for \(request.authority ?? "the server") to answer …")
        }
        defer { waiting.cancel() }
        let (response, bytes) = try await transport.send(request, body: body)
        let path = request.path?.prefix { $0 != "?" } ?? ""
        log.debug("\(request.method) \(path)", metadata: ["status": "\(response.status.code)"])
        return (response, bytes)
    }
}
