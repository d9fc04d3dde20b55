import Glibc
import HTTPTypes
import Hummingbird
import NIOCore

/// Takes the client's address from `X-Forwarded-For` if the request came from a trusted proxy.
struct ClientAddressMiddleware: RouterMiddleware {
    private let trustedProxies: Set<String>

    init(trustedProxies: [String]) {
        self.trustedProxies = Set(trustedProxies.compactMap { IPAddress($0)?.description })
    }

    @concurrent
    func handle(_ request: Request, context: IdentityContext, next: Next) async throws -> Response {
        var context = context
        if trustedProxies.contains(context.address), let client = Self.lastHop(request.headers) {
            context.address = client.description
        }
        return try await next(request, context)
    }

    /// The last entry, which the proxy wrote. The client can forge the entries before it.
    private static func lastHop(_ headers: HTTPFields) -> IPAddress? {
        headers[named: "X-Forwarded-For"]?
            .split(separator: ",", omittingEmptySubsequences: false).last
            .flatMap { IPAddress($0.filter { $0 != " " && $0 != "\t" }) }
    }
}

/// An IP address in canonical form, so that equal addresses compare equal.
struct IPAddress: Hashable, Sendable, CustomStringConvertible {
    let description: String

    /// - Returns: nil if `text` is not exactly an IPv4 or IPv6 address.
    init?(_ text: String) {
        guard let address = try? SocketAddress(ipAddress: text, port: 0),
            let canonical = address.ipAddress
        else {
            return nil
        }
        // A dual-stack socket reports IPv4 peers as IPv4-mapped IPv6 addresses (RFC 4291 section
        // 2.5.5.2).
        let mapped = "::ffff:"
        description =
            canonical.hasPrefix(mapped) && canonical.contains(".")
            ? String(canonical.dropFirst(mapped.count)) : canonical
    }

    /// The network by which limits count: an IPv4 address itself, or the first 64 bits of an IPv6
    /// address, because its owner chooses the other 64 (RFC 4291 section 2.5.1, RFC 6177).
    var network: String {
        var address = [UInt8](repeating: 0, count: 16)
        guard inet_pton(AF_INET6, description, &address) == 1 else { return description }
        return address.prefix(8).map {
            $0 < 16 ? "0\(String($0, radix: 16))" : String($0, radix: 16)
        }.joined() + "/64"
    }
}
