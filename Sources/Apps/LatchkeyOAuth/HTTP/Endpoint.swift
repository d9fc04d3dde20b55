internal import FoundationEssentials
package import HTTPTypes

/// An absolute URL to which a secret may be sent: `https`, or `http` on this machine's own loopback
/// address.
package struct Endpoint: Hashable, Sendable {
    package let scheme: String
    /// The host in lower case, and the port if the URL contains one.
    package let authority: String
    /// Path and query; at least `/`.
    package let path: String

    /// - Returns: nil unless `text` is an absolute `https` URL, or `http` URL of a loopback host,
    ///   without user name, password or fragment.
    package init?(_ text: String) {
        guard
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            let url = URL(string: text, encodingInvalidCharacters: false),
            let scheme = url.scheme?.lowercased(), let host = url.host()?.lowercased(),
            !host.isEmpty,
            url.user() == nil, url.password() == nil, url.fragment() == nil,
            scheme == "https" || (scheme == "http" && Self.isLoopback(host))
        else { return nil }
        self.scheme = scheme
        let bracketed = host.contains(":") && !host.hasPrefix("[") ? "[\(host)]" : host
        authority = url.port.map { "\(bracketed):\($0)" } ?? bracketed
        // A TCP port has 16 bits. Foundation drops a port that it cannot parse, so the text is
        // compared too.
        let (text, start) = (text.lowercased(), "\(scheme)://\(authority)")
        guard (1...65_535).contains(url.port ?? 443), text.hasPrefix(start) else { return nil }
        let rest = text.dropFirst(start.count)
        guard rest.isEmpty || rest.hasPrefix("/") || rest.hasPrefix("?") else { return nil }
        let path = url.path(percentEncoded: true)
        self.path =
            (path.isEmpty ? "/" : path) + (url.query(percentEncoded: true).map { "?" + $0 } ?? "")
    }

    private init(scheme: String, authority: String, path: String) {
        self.scheme = scheme
        self.authority = authority
        self.path = path
    }

    /// The whole URL.
    package var text: String { "\(scheme)://\(authority)\(path)" }

    /// Scheme, host and port (RFC 6454 section 4), without a trailing slash.
    package var origin: String { "\(scheme)://\(authority)" }

    /// Whether the host can only be this machine.
    var isLoopback: Bool { Self.isLoopback(host) }

    /// The addresses of a loopback host.
    var loopbackAddresses: [String] {
        host == "localhost" ? ["127.0.0.1", "::1"] : [host.filter { $0 != "[" && $0 != "]" }]
    }

    var port: Int { URL(string: text)?.port ?? (scheme == "http" ? 80 : 443) }

    private var host: String { URL(string: text)?.host() ?? "" }

    package var hasQuery: Bool { path.contains("?") }

    /// Another path on the same origin.
    package func onSameOrigin(path: String) -> Endpoint {
        Endpoint(scheme: scheme, authority: authority, path: path)
    }

    /// A path below this one; the query is dropped.
    package func appending(_ suffix: String) -> Endpoint {
        let base = path.prefix { $0 != "?" }
        return onSameOrigin(
            path: (base.hasSuffix("/") ? String(base.dropLast()) : String(base)) + suffix)
    }

    package func request(_ method: HTTPRequest.Method, _ fields: HTTPFields = [:]) -> HTTPRequest {
        HTTPRequest(
            method: method, scheme: scheme, authority: authority, path: path, headerFields: fields)
    }

    /// Whether the host can only be this machine: `localhost`, `127.0.0.0/8`, `::1` (RFC 8252
    /// section 8.3).
    package static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" || host == "[::1]" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127"
            && parts.allSatisfy { part in
                part.utf8.allSatisfy { (0x30...0x39).contains($0) } && UInt8(part) != nil
            }
    }
}

/// The text is not an ``Endpoint``. The underlying error of `DecodingError.dataCorrupted`.
struct NoEndpoint: Error {}

extension Endpoint: Decodable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let endpoint = Endpoint(try container.decode(String.self)) else {
            throw DecodingError.dataCorrupted(
                .init(
                    codingPath: container.codingPath, debugDescription: "not a secure absolute URL",
                    underlyingError: NoEndpoint()))
        }
        self = endpoint
    }
}
