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

        /// This server issues tokens to an operator's own public clients only. The other kinds can be configured so
        /// that what they are refused can be tried out.
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
    /// Seconds from the login on.
    var refreshTokenLifetime: Int
    /// Seconds from the last use on.
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
        func override<Value: Decodable>(_ value: inout Value, _ key: CodingKeys) throws {
            if let given = try container.decodeIfPresent(Value.self, forKey: key) { value = given }
        }
        try override(&postLogoutRedirectURIs, .postLogoutRedirectURIs)
        try override(&accessTokenLifetime, .accessTokenLifetime)
        try override(&refreshTokenLifetime, .refreshTokenLifetime)
        try override(&refreshTokenIdleTimeout, .refreshTokenIdleTimeout)
        try override(&rotatesRefreshTokens, .rotatesRefreshTokens)
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

    /// Whether the client may be sent back to `uri`.
    func accepts(redirectURI uri: RedirectURI) -> Bool {
        redirectURIs.lazy.compactMap(RedirectURI.init).contains { $0.covers(uri) }
    }

    func accepts(postLogoutRedirectURI uri: RedirectURI) -> Bool {
        postLogoutRedirectURIs.lazy.compactMap(RedirectURI.init).contains { $0.covers(uri) }
    }
}
