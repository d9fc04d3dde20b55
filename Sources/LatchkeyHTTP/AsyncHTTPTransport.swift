internal import AsyncHTTPClient
internal import FoundationEssentials
internal import Glibc
public import HTTPTypes
public import Latchkey
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import Synchronization

/// Sends HTTP requests with AsyncHTTPClient.
///
/// TLS certificates are verified with the system's authorities, redirects are not followed, a response has at most 1 MiB, and
/// a request has a maximum duration. Plain `http` is refused except to a loopback host whose port belongs to a program of this
/// user or of root. The client is created at the first request.
public final class AsyncHTTPTransport: HTTPTransport {
    /// The maximum size of a response body, in bytes.
    package static let maximumResponseBytes = 1 << 20

    private let timeout: Int
    private static let operation = "reach the server"
    /// The clients, by scheme.
    private let clients = Mutex<[String: HTTPClient]>([:])

    /// - Parameter timeout: The maximum duration of a request in seconds, from the first packet to the last.
    public init(timeout: Int = 30) {
        self.timeout = timeout
    }

    deinit {
        // The client keeps itself alive until it has closed its connections.
        clients.withLock { for client in $0.values { client.shutdown { _ in } } }
    }

    public func send(_ request: HTTPRequest, body: [UInt8]) async throws(KeystoreError) -> (HTTPResponse, [UInt8]) {
        let url = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
        guard let endpoint = Endpoint(url) else {
            throw KeystoreError(
                operation: Self.operation, code: .refused, reason: "‘\(url)’ is neither https nor on this machine",
                recovery: "Use an https address.")
        }
        if endpoint.scheme == "http" { try Self.checkOwner(of: endpoint, isRequired: false) }
        var outgoing = HTTPClientRequest(url: endpoint.text)
        outgoing.method = .RAW(value: request.method.rawValue)
        outgoing.headers = HTTPHeaders(request.headerFields.map { ($0.name.rawName, $0.value) })
        if !body.isEmpty { outgoing.body = .bytes(body) }
        do {
            return try await exchange(outgoing, by: runningClient(endpoint.scheme))
        } catch {
            if endpoint.scheme == "http", Self.unreachable(error, "") == nil {
                try Self.checkOwner(of: endpoint, isRequired: true)
            }
            throw failure(error, host: endpoint.authority, isCancelled: Task.isCancelled)
        }
    }

    /// Throws an error if a loopback server is not a program of root or of this user. Each connection is checked again: see
    /// ``runningClient(_:)``.
    ///
    /// - Parameter isRequired: Whether a missing server is an error.
    private static func checkOwner(of endpoint: Endpoint, isRequired: Bool) throws(KeystoreError) {
        let url = URL(string: endpoint.text)
        let listener: String
        switch LoopbackServerOwner.owner(ofPort: url?.port ?? 80, at: url?.host() ?? "") {
        case .trusted: return
        case .noListener:
            guard isRequired else { return }
            listener = "no program of this user or of root listens"
        case .otherUser(let user): listener = "a program of another user (user ID \(user)) listens"
        case .unknown: listener = "the kernel does not show which user's program listens"
        }
        throw unavailable(
            "\(listener) at \(endpoint.authority), and plain HTTP does not authenticate it",
            "Use https, or run the server as your own user or as root.")
    }

    /// Limits the duration of the whole request. The client's deadline covers only the head of the response, and its read
    /// timeout restarts with each byte.
    private func exchange(
        _ request: HTTPClientRequest, by client: HTTPClient
    ) async throws -> (HTTPResponse, [UInt8]) {
        let timeout = timeout
        return try await withThrowingTaskGroup(of: (HTTPResponse, [UInt8]).self) { group in
            group.addTask {
                let response = try await client.execute(request, timeout: .seconds(Int64(timeout)))
                let bytes = try await response.body.collect(upTo: Self.maximumResponseBytes)
                return (Self.translate(response), Array(buffer: bytes))
            }
            group.addTask {
                try await Task.sleep(for: .seconds(timeout))
                throw HTTPClientError.deadlineExceeded
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw HTTPClientError.cancelled }
            return first
        }
    }

    /// The client for a scheme, created at its first request.
    ///
    /// A connection for plain HTTP is closed before its first byte unless the kernel shows that its server listens as root or
    /// as this user. The check comes after the connection is made, so another user who takes the port in between gets
    /// nothing, and a connection of the pool was checked when it was made.
    private func runningClient(_ scheme: String) -> HTTPClient {
        clients.withLock { clients in
            if let client = clients[scheme] { return client }
            var configuration = HTTPClient.Configuration()
            configuration.redirectConfiguration = .disallow
            configuration.decompression = .disabled
            // Over HTTP/2 a status may be any number (swift-nio-http2 1.46). A negative one ends the process in swift-nio,
            // and one above 999 in swift-http-types.
            configuration.httpVersion = .http1Only
            configuration.timeout = .init(connect: .seconds(10), read: .seconds(Int64(timeout)))
            configuration.connectionPool.retryConnectionEstablishment = false
            configuration.http1_1ConnectionDebugInitializer = { channel in
                if scheme == "http", !Self.isTrusted(channel.remoteAddress) { channel.close(promise: nil) }
                return ResponseStatusCheck.install(in: channel)
            }
            let made = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            clients[scheme] = made
            return made
        }
    }

    private static func isTrusted(_ server: SocketAddress?) -> Bool {
        guard let host = server?.ipAddress, let port = server?.port else { return false }
        return LoopbackServerOwner.owner(ofPort: port, at: host) == .trusted
    }

    private static func translate(_ response: HTTPClientResponse) -> HTTPResponse {
        var fields = HTTPFields()
        for (name, value) in response.headers {
            if let name = HTTPField.Name(name) { fields.append(HTTPField(name: name, value: value)) }
        }
        return HTTPResponse(status: .init(code: Int(response.status.code)), headerFields: fields)
    }

    /// Why the connection failed; nil for other errors.
    private static func unreachable(_ error: any Error, _ host: String) -> String? {
        let attempts = error as? NIOConnectionError
        if let attempts, attempts.connectionErrors.isEmpty { return "no address is known for \(host)" }
        // A numeric address fails without a NIOConnectionError.
        guard let code = ((attempts?.connectionErrors.first?.error ?? error) as? IOError)?.errnoCode else { return nil }
        return code == ECONNREFUSED
            ? "nothing listens at \(host)" : "\(host) can't be reached: \(String(cString: strerror(code)))"
    }

    /// The reason and recovery for a TLS certificate that is not accepted; nil for other errors. swift-nio-ssl names the
    /// cause only in the error's text.
    private static func distrust(_ text: String, _ host: String) -> (reason: String, recovery: String)? {
        if text.contains("CERTIFICATE_VERIFY_FAILED") {
            return (
                "the TLS certificate of \(host) is not trusted: its authority is unknown, or it has expired or is not "
                    + "valid yet",
                "Check this machine's clock and the server's certificate, and install a private certificate authority "
                    + "in the system's trust store."
            )
        }
        guard text.contains("failedToValidateHostname") else { return nil }
        return (
            "the TLS certificate of the server at \(host) is for another host",
            "Check the server's address. If it is right, install a certificate for it on the server."
        )
    }

    private func failure(_ error: any Error, host: String, isCancelled: Bool) -> KeystoreError {
        if isCancelled || error is CancellationError { return .cancelled().during(Self.operation) }
        let text = String(describing: error)
        if let (reason, recovery) = Self.distrust(text, host) {
            return Self.unavailable(reason, recovery, .init(layer: "tls", text: text))
        }
        let reason =
            switch error as? HTTPClientError {
            case _ where error is NIOTooManyBytesError: "the response of \(host) is longer than 1 MiB"
            case _ where error is ResponseStatusCheck.Failure: "\(host) answered with an invalid HTTP status"
            case .connectTimeout?: "the connection to \(host) timed out"
            case .deadlineExceeded?, .readTimeout?:
                "the request to \(host) timed out: there was no complete response within \(timeout) s"
            default: Self.unreachable(error, host) ?? "\(host) sent an invalid HTTP response"
            }
        return Self.unavailable(
            reason, "Check the network and the server's address, then try again.", .init(layer: "http", text: text))
    }

    private static func unavailable(
        _ reason: String, _ recovery: String, _ underlying: UnderlyingError? = nil
    ) -> KeystoreError {
        KeystoreError(
            operation: operation, code: .unavailable, reason: reason, recovery: recovery, underlying: underlying)
    }
}
