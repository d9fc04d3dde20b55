internal import CCurl
internal import FoundationEssentials
internal import Glibc
public import HTTPTypes
public import Latchkey
internal import LatchkeyPlatform
internal import Synchronization

/// Sends HTTP requests with libcurl, the system's library.
///
/// TLS certificates are verified with the system's authorities, redirects are not followed, a
/// response has at most 1 MiB, and a request has a maximum duration. Plain `http` is refused except
/// to a loopback host whose port belongs to a program of this user or of root.
///
/// For `https` to another machine, libcurl uses the proxy of the environment variable `https_proxy`
/// or `all_proxy`, except for the hosts in `no_proxy`. TLS is between the program and the server,
/// so the proxy cannot read the requests. Other variables, for example `SSL_CERT_FILE`, do not
/// change which certificates are trusted.
public final class CurlTransport: HTTPTransport {
    /// The maximum size of a response body, in bytes.
    package static let maximumResponseBytes = CurlExchange.Limits.bodyBytes

    /// The versions of libcurl and of its TLS library, by their names.
    package static var libraryVersions: [String: String] {
        // For example: libcurl/7.88.1 OpenSSL/3.0.19 zlib/1.2.13
        let parts = String(cString: curl_version()).split(separator: " ").prefix(2)
            .map { $0.split(separator: "/", maxSplits: 1).map(String.init) }
        return Dictionary(
            parts.compactMap { part in
                part.first.map { ($0, part.count == 2 ? part[1] : "") }
            }, uniquingKeysWith: { first, _ in first })
    }

    private let limits: CurlExchange.Limits
    private let authorities: String?
    private static let operation = "reach the server"
    /// Created at the first request.
    private let session = Mutex<CurlSession?>(nil)

    /// - Parameter timeout: The maximum duration of a request in seconds, from the first packet to
    ///   the last.
    public convenience init(timeout: Int = 30) { self.init(limits: .init(timeoutSeconds: timeout)) }

    /// - Parameter authorities: A file of the trusted authorities' certificates (PEM); nil for the
    ///   system's.
    init(limits: CurlExchange.Limits, authorities: String? = nil) {
        self.limits = limits
        self.authorities = authorities
    }

    public func send(_ request: HTTPRequest, body: [UInt8]) async throws(CommonError) -> (
        HTTPResponse, [UInt8]
    ) {
        let url = "\(request.scheme ?? "")://\(request.authority ?? "")\(request.path ?? "")"
        guard let endpoint = Endpoint(url) else {
            throw CommonError(
                operation: Self.operation, code: .refused,
                reason: "‘\(url)’ is neither https nor on this machine",
                recovery: "Use an https address.")
        }
        let exchange = CurlExchange(
            request, body, to: endpoint, limits: limits, authorities: authorities)
        switch try await runningSession().send(exchange) {
        case .response(let response, let bytes): return (response, bytes)
        case .failed(let failure):
            if endpoint.scheme == "http", failure.isFromConnection {
                try await Self.explainOwner(of: endpoint)
            }
            throw error(failure, endpoint)
        }
    }

    /// Throws an error if a loopback server is not a program of root or of this user.
    /// `CurlExchange` has then refused to send the request.
    private static func explainOwner(of endpoint: Endpoint) async throws(CommonError) {
        let ends = endpoint.loopbackAddresses.compactMap { TCPSocket.End($0, port: endpoint.port) }
        let owners = await BlockingThread().run { ends.map(LoopbackServerOwner.init(listeningAt:)) }
        let listener: String
        switch owners.first(where: { $0 != .noListener }) ?? .noListener {
        case .trusted: return
        case .noListener: listener = "no program of this user or of root listens"
        case .otherUser(let user): listener = "a program of another user (user ID \(user)) listens"
        case .unknown: listener = "the kernel does not show which user's program listens"
        }
        throw unavailable(
            "\(listener) at \(endpoint.authority), and plain HTTP does not authenticate it",
            recovery: "Use https, or run the server as your own user or as root.")
    }

    private func runningSession() async throws(CommonError) -> CurlSession {
        if let session = session.withLock(\.self) { return session }
        let made: CurlSession
        do throws(CommonError) {
            made = try await BlockingThread().run { () throws(CommonError) in try CurlSession() }
        } catch {
            throw error.during(Self.operation)
        }
        return session.withLock { session in
            if let session { return session }
            session = made
            return made
        }
    }

    private func error(_ failure: CurlExchange.Failure, _ endpoint: Endpoint) -> CommonError {
        let host = endpoint.authority
        var recovery = "Check the network and the server's address, then try again."
        var layer = "http"
        let reason: String
        switch failure.cause {
        case .cancelled: return .cancelled().during(Self.operation)
        case .untrustedCertificate(let result):
            let cause: String
            (cause, recovery) = Self.distrust(result)
            reason = "the TLS certificate of \(host) is not trusted: \(cause)"
            layer = "tls"
        case .certificateOfOtherHost:
            reason = "the TLS certificate of the server at \(host) is for another host"
            recovery =
                "Check the server's address. If it is right, install a certificate for it on the server."
            layer = "tls"
        case .tooLong: reason = "the response of \(host) is longer than 1 MiB"
        case .invalidStatus: reason = "\(host) answered with an invalid HTTP status"
        case .connectionEnded:
            reason = "the connection to \(host) ended before the response was complete"
        case .invalidResponse: reason = "\(host) sent an invalid HTTP response"
        case .connectTimeout: reason = "the connection to \(host) timed out"
        case .timeout:
            reason =
                "the request to \(host) timed out: there was no complete response within \(limits.timeoutSeconds) s"
        case .unknownHost: reason = "no address is known for \(host)"
        case .unreachable(ECONNREFUSED) where !Self.usesProxy(endpoint):
            reason = "nothing listens at \(host)"
        case .unreachable(let code):
            reason = "\(host) can't be reached: \(SystemError(code))"
        case .refusedByProxy(let status):
            reason =
                "the proxy does not connect to \(host): it answered with the HTTP status \(status)"
        case .outOfMemory: reason = "the system has no memory left for the request"
        case .refusedOption:
            reason = "the library libcurl is too old"
            recovery = "Install libcurl 7.87 or newer."
        }
        if Self.usesProxy(endpoint), layer == "http" {
            recovery +=
                " If the network has a proxy, check the environment variables https_proxy and no_proxy."
        }
        return Self.unavailable(
            reason, recovery: recovery,
            underlying: .init(layer: layer, rawCode: failure.code, text: failure.text))
    }

    /// The cause and the next step for OpenSSL's result of the verification of a certificate.
    private static func distrust(_ result: Int) -> (cause: String, recovery: String) {
        switch result {
        case 9: ("it is not valid yet", "Check this machine's clock.")
        case 10:
            (
                "it has expired",
                "Check this machine's clock. If it is right, renew the server's certificate."
            )
        case 18...21:
            (
                "no authority in the system's trust store issued it",
                "If the server has a private certificate authority, install its certificate in the system's trust store."
            )
        default:
            (
                "OpenSSL's result of the verification is \(result)",
                "Show this text to the server's operator."
            )
        }
    }

    /// Whether libcurl may use a proxy for the server; see curl_easy_setopt(3), `CURLOPT_PROXY`.
    private static func usesProxy(_ endpoint: Endpoint) -> Bool {
        let variables = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
        return !endpoint.isLoopback && variables.contains { name in getenv(name) != nil }
    }

    private static func unavailable(
        _ reason: String, recovery: String, underlying: UnderlyingError? = nil
    ) -> CommonError {
        CommonError(
            operation: operation, code: .unavailable, reason: reason, recovery: recovery,
            underlying: underlying)
    }
}
