import HTTPTypes
import Latchkey
import LatchkeyHTTP
import LatchkeyLogin
import Logging

/// The HTTP client of the tool. Logs the method, the path without its query, and the status of each exchange, but no
/// headers or bodies. Reports that it waits after one second.
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

/// Comparison of server addresses.
enum ServerAddress {
    /// Whether both addresses name the same server, apart from letter case and a final slash.
    static func isSame(_ one: String, _ other: String) -> Bool {
        guard let one = Endpoint(one), let other = Endpoint(other) else { return one == other }
        return bare(one) == bare(other)
    }

    private static func bare(_ endpoint: Endpoint) -> String {
        endpoint.text.hasSuffix("/") ? String(endpoint.text.dropLast()) : endpoint.text
    }
}

extension CommandContext {
    /// Runs an operation that informs the server, and mentions `--force` if the server cannot be reached.
    func pointingToForce(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch let error as LoginError where error.code == .network {
            console.warn("With --force, the command works on this machine only, and the server keeps its data.")
            throw error
        }
    }
}
