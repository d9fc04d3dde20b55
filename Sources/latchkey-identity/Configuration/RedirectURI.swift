import FoundationEssentials

/// An absolute URI without a fragment, to which a browser may be sent.
struct RedirectURI: Hashable, Sendable {
    let string: String
    private let components: URLComponents

    /// - Returns: nil when `string` is relative, has a fragment, user or password, has characters that don't belong
    ///   into a URI, or is of a scheme that runs in the browser.
    init?(_ string: String) {
        guard
            string.utf8.count <= 2_000, string.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let components = URLComponents(string: string), let scheme = components.scheme?.lowercased(),
            !["javascript", "data", "vbscript", "file", "about", "blob"].contains(scheme),
            !string.contains("#"), components.user == nil, components.password == nil
        else { return nil }
        if scheme == "http" || scheme == "https" {
            guard let host = components.host, !host.isEmpty else { return nil }
        }
        self.string = string
        self.components = components
    }

    /// Whether a client that registered this one may use `other`: the same text, or, on a loopback address, the same
    /// but for the port (RFC 8252 section 7.3).
    func covers(_ other: RedirectURI) -> Bool {
        if string == other.string { return true }
        guard isLoopback, other.isLoopback else { return false }
        return components.host == other.components.host
            && components.percentEncodedPath == other.components.percentEncodedPath
            && components.percentEncodedQuery == other.components.percentEncodedQuery
    }

    /// What a page's policy must name so that a form may lead here: an origin, or the scheme of an app.
    var contentSecuritySource: String {
        guard let scheme = components.scheme else { return "'none'" }
        guard scheme == "http" || scheme == "https", let host = components.host else { return "\(scheme):" }
        return "\(scheme)://\(host)" + (components.port.map { ":\($0)" } ?? "")
    }

    /// The URI with more query parameters.
    func adding(_ parameters: [(String, String)]) -> String {
        let added = parameters.map { "\(FormFields.encode($0))=\(FormFields.encode($1))" }.joined(separator: "&")
        let separator = components.percentEncodedQuery.map { $0.isEmpty ? "" : "&" } ?? "?"
        return added.isEmpty ? string : string + separator + added
    }

    /// Whether only one site gets what is sent there. A loopback address is whoever's program listens, a private scheme
    /// whoever's program has claimed it.
    var isOfOneSite: Bool { components.scheme?.lowercased() == "https" }

    private var isLoopback: Bool {
        components.scheme == "http" && ["127.0.0.1", "[::1]", "::1"].contains(components.host)
    }
}
