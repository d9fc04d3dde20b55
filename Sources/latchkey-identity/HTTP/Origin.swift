import Synchronization

/// The server's own origin, which is known once it listens, as `http://127.0.0.1:43210`, and what it is called by.
final class Origin: Sendable {
    private struct State {
        var origin: String?
        /// What the `Host` of a request may be, in lower case.
        var authorities: Set<String>
    }

    private let state: Mutex<State>

    init(_ fixed: String?) {
        state = Mutex(State(origin: fixed, authorities: fixed.map(Self.authorities) ?? []))
    }

    /// Nil until the server listens.
    var current: String? { state.withLock { $0.origin } }

    /// Sets the origin, unless an operator fixed it. Who is on this machine may call the server by the names of the
    /// loopback as well, if it listens there.
    func listening(on host: String, port: Int) {
        let origin = "http://\(host.contains(":") ? "[\(host)]" : host):\(port)"
        let names = Self.includesLoopback(host) ? ["localhost", "127.0.0.1", "[::1]"] : []
        state.withLock { state in
            if state.origin == nil {
                state.origin = origin
                state.authorities = Self.authorities(origin)
            }
            for name in names { state.authorities.formUnion(Self.authorities("http://\(name):\(port)")) }
        }
    }

    /// Whether a request with this `Host` means this server.
    func isCalled(_ authority: String) -> Bool {
        state.withLock { $0.authorities.contains(authority.lowercased()) }
    }

    private static func includesLoopback(_ host: String) -> Bool {
        ["localhost", "::1", "0.0.0.0", "::"].contains(host) || host.hasPrefix("127.")
    }

    /// What a client may send as `Host` for this origin: its scheme's default port may be left out.
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
