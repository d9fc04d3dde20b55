import HTTPTypes
import Hummingbird
import Logging
import Synchronization

/// Refuses requests whose `Host` is not this server's.
///
/// This prevents DNS rebinding: a malicious site can make its own name resolve to this machine, so
/// that browsers treat its pages and this server as one origin. The requests of its pages have that
/// name as `Host`.
struct HostMiddleware: RouterMiddleware {
    let origin: Origin

    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        // RFC 9112 section 3.2. The first Host becomes the authority; a second one remains in the
        // headers.
        guard let authority = request.head.authority, request.headers[named: "Host"] == nil else {
            throw HTTPError(.badRequest, message: "a request must have exactly one Host header")
        }
        guard origin.accepts(host: authority) else {
            // Not in the usual log: any client can cause any number of these lines.
            context.logger.debug("refused, for another host", metadata: ["host": "\(authority)"])
            throw HTTPError(
                .misdirectedRequest, message: "this server does not answer for that host")
        }
        return try await next(request, context)
    }
}

/// The server's origin, such as `http://127.0.0.1:43210`, and the `Host` values that name it.
/// Without `public_origin` it is known when the server listens.
final class Origin: Sendable {
    private struct State {
        var origin: String?
        /// The accepted values of `Host`, in lower case.
        var authorities: Set<String>
    }

    private let state: Mutex<State>

    init(_ fixed: String?) {
        state = Mutex(State(origin: fixed, authorities: fixed.map(Self.authorities) ?? []))
    }

    /// The origin; nil until the server listens, unless it is configured.
    var current: String? { state.withLock { $0.origin } }

    /// Sets the origin, unless it is configured. If the server listens on loopback, it also accepts
    /// the loopback names as `Host`.
    func listening(on host: String, port: Int) {
        let origin = Self.text(host: host, port: port)
        let includesLoopback =
            ["localhost", "::1", "0.0.0.0", "::"].contains(host) || host.hasPrefix("127.")
        let names = includesLoopback ? ["localhost", "127.0.0.1", "[::1]"] : []
        state.withLock { state in
            if state.origin == nil {
                state.origin = origin
                state.authorities = Self.authorities(origin)
            }
            for name in names {
                state.authorities.formUnion(Self.authorities("http://\(name):\(port)"))
            }
        }
    }

    /// The origin of a server without TLS at an address or name.
    static func text(host: String, port: Int) -> String {
        "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }

    /// Whether this value of `Host` names this server.
    func accepts(host authority: String) -> Bool {
        state.withLock { $0.authorities.contains(authority.lowercased()) }
    }

    /// The values of `Host` for an origin: with and without the port if it is the scheme's default.
    private static func authorities(_ origin: String) -> Set<String> {
        let origin = origin.lowercased()
        guard let separator = origin.firstRange(of: "://") else { return [] }
        let authority = String(origin[separator.upperBound...])
        let port = origin.hasPrefix("https:") ? ":443" : ":80"
        if authority.hasSuffix(port) { return [authority, String(authority.dropLast(port.count))] }
        let namesPort = authority.contains(":") && !authority.hasSuffix("]")
        return namesPort ? [authority] : [authority, authority + port]
    }
}
