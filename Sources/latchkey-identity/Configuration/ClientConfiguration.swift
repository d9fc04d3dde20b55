import FoundationEssentials

/// An app that may use this server.
struct ClientConfiguration: Sendable, Codable {
    enum Kind: String, Sendable, Codable {
        case native
        case spa
        case traditionalWebApp = "traditional_webapp"
        case confidential
        case thirdPartyApp = "third_party_app"
        case m2m

        /// Whether this server issues tokens to clients of this kind: it does so to an operator's own public clients
        /// only. The other kinds can be configured to test how they are refused.
        var isFirstPartyPublic: Bool {
            switch self {
            case .native, .spa, .traditionalWebApp: true
            case .confidential, .thirdPartyApp, .m2m: false
            }
        }
    }

    var id: String
    var kind: Kind
    var name: String?
    var redirectURIs: [String]
    var postLogoutRedirectURIs: [String]
    /// Seconds.
    var accessTokenLifetime: Int
    /// Seconds from the login.
    var refreshTokenLifetime: Int
    /// Seconds from the last use.
    var refreshTokenIdleTimeout: Int
    var rotatesRefreshTokens: Bool

    enum CodingKeys: String, CodingKey {
        case id = "client_id"
        case kind = "x_application_type"
        case name
        case redirectURIs = "redirect_uris"
        case postLogoutRedirectURIs = "post_logout_redirect_uris"
        case accessTokenLifetime = "access_token_lifetime_seconds"
        case refreshTokenLifetime = "refresh_token_lifetime_seconds"
        case refreshTokenIdleTimeout = "refresh_token_idle_timeout_seconds"
        case rotatesRefreshTokens = "refresh_token_rotation_enabled"
    }

    /// The defaults are those of a deployed Authgear server: 30 minutes, 364 days, 30 days.
    init(id: String, kind: Kind = .native, name: String? = nil, redirectURIs: [String]) {
        self.id = id
        self.kind = kind
        self.name = name
        self.redirectURIs = redirectURIs
        postLogoutRedirectURIs = []
        accessTokenLifetime = 1_800
        refreshTokenLifetime = 364 * 86_400
        refreshTokenIdleTimeout = 30 * 86_400
        rotatesRefreshTokens = true
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            id: try container.decode(String.self, forKey: .id),
            kind: try container.decodeIfPresent(Kind.self, forKey: .kind) ?? .native,
            name: try container.decodeIfPresent(String.self, forKey: .name),
            redirectURIs: try container.decodeIfPresent([String].self, forKey: .redirectURIs) ?? [])
        try container.override(&postLogoutRedirectURIs, .postLogoutRedirectURIs)
        try container.override(&accessTokenLifetime, .accessTokenLifetime)
        try container.override(&refreshTokenLifetime, .refreshTokenLifetime)
        try container.override(&refreshTokenIdleTimeout, .refreshTokenIdleTimeout)
        try container.override(&rotatesRefreshTokens, .rotatesRefreshTokens)
    }

    func validate() throws {
        guard !id.isEmpty, id.utf8.count <= 200 else {
            throw ConfigurationError("clients: a client_id is empty or too long")
        }
        for uri in redirectURIs + postLogoutRedirectURIs where RedirectURI(uri) == nil {
            throw ConfigurationError("client \(id): \(uri) is not an absolute URI without a fragment")
        }
        guard accessTokenLifetime > 0, refreshTokenLifetime > 0, refreshTokenIdleTimeout > 0 else {
            throw ConfigurationError("client \(id): a lifetime must be at least one second")
        }
    }

    /// Whether `uri` is registered for the client's authorization responses.
    func accepts(redirectURI uri: RedirectURI) -> Bool {
        redirectURIs.lazy.compactMap(RedirectURI.init).contains { $0.covers(uri) }
    }

    func accepts(postLogoutRedirectURI uri: RedirectURI) -> Bool {
        postLogoutRedirectURIs.lazy.compactMap(RedirectURI.init).contains { $0.covers(uri) }
    }
}

/// An absolute URI without a fragment, the target of a redirect.
struct RedirectURI: Hashable, Sendable {
    let string: String
    private let components: URLComponents

    /// - Returns: nil if `string` is relative, has a fragment, user, password or a character that is invalid in a URI,
    ///   or has a scheme that the browser handles itself, such as `javascript`.
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

    /// Whether a client that registered this URI may use `other`: both are the same, or both are on the same loopback
    /// address and differ in the port only (RFC 8252 section 7.3).
    func covers(_ other: RedirectURI) -> Bool {
        if string == other.string { return true }
        guard isLoopback, other.isLoopback else { return false }
        return components.host == other.components.host
            && components.percentEncodedPath == other.components.percentEncodedPath
            && components.percentEncodedQuery == other.components.percentEncodedQuery
    }

    /// The source that a page's `form-action` policy needs so that a form can redirect here: an origin, or an app's
    /// scheme.
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

    /// Whether only one site can receive a redirect to this URI. Any local program can listen on a loopback address,
    /// and any program can register a private scheme.
    var isOfOneSite: Bool { components.scheme?.lowercased() == "https" }

    private var isLoopback: Bool {
        components.scheme == "http" && ["127.0.0.1", "[::1]", "::1"].contains(components.host)
    }
}
