import FoundationEssentials
import Latchkey

/// An app that may use this server.
struct ClientConfiguration: Sendable, Codable {
    enum Kind: String, Sendable, Codable {
        case native
        case spa
        case traditionalWebApp = "traditional_webapp"
        case confidential
        case thirdPartyApp = "third_party_app"
        case m2m

        /// Whether this server issues tokens to clients of this kind: it does so to an operator's
        /// own public clients only. The other kinds can be configured to test how they are refused.
        var isFirstPartyPublic: Bool {
            switch self {
            case .native, .spa, .traditionalWebApp: true
            case .confidential, .thirdPartyApp, .m2m: false
            }
        }
    }

    var id: String
    var kind = Kind.native
    var name: String?
    var redirectURIs: [String] = []
    var postLogoutRedirectURIs: [String] = []
    /// Seconds. This and the other defaults are those of deployed Authgear servers.
    var accessTokenLifetime = 1_800
    /// Seconds from the login.
    var refreshTokenLifetime = 364 * 86_400
    /// Seconds from the last use.
    var refreshTokenIdleTimeout = 30 * 86_400
    var rotatesRefreshTokens = true
    /// Whether tokens are bound to a key of the client.
    var dpop = TokenBinding.optional
    /// Replaces `attestation.require` for this client.
    var attestationRequire: String?

    /// The file's names, before their conversion to snake case.
    enum CodingKeys: String, CodingKey {
        case id = "clientId"
        case kind = "xApplicationType"
        case name
        case redirectURIs = "redirectUris"
        case postLogoutRedirectURIs = "postLogoutRedirectUris"
        case accessTokenLifetime = "accessTokenLifetimeSeconds"
        case refreshTokenLifetime = "refreshTokenLifetimeSeconds"
        case refreshTokenIdleTimeout = "refreshTokenIdleTimeoutSeconds"
        case rotatesRefreshTokens = "refreshTokenRotationEnabled"
        case dpop
        case attestationRequire
    }

    func validate() throws {
        guard !id.isEmpty, id.utf8.count <= 200 else {
            throw ConfigurationError("clients: a client_id is empty or too long")
        }
        for uri in redirectURIs + postLogoutRedirectURIs where RedirectURI(uri) == nil {
            throw ConfigurationError(
                "client \(id): \(uri) is not an absolute URI without a fragment")
        }
        guard accessTokenLifetime > 0, refreshTokenLifetime > 0, refreshTokenIdleTimeout > 0 else {
            throw ConfigurationError("client \(id): a lifetime must be at least one second")
        }
    }
}

/// An absolute URI without a fragment, the target of a redirect.
struct RedirectURI: Hashable, Sendable {
    let string: String
    private let components: URLComponents

    /// - Returns: nil if `string` is relative, has a fragment, user, password or a character that
    ///   is invalid in a URI, or has a scheme that the browser handles itself, such as
    ///   `javascript`.
    init?(_ string: String) {
        guard
            string.utf8.count <= 2_000, string.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let components = URLComponents(string: string),
            let scheme = components.scheme?.lowercased(),
            !["javascript", "data", "vbscript", "file", "about", "blob"].contains(scheme),
            !string.contains("#"), components.user == nil, components.password == nil
        else { return nil }
        if scheme == "http" || scheme == "https" {
            guard let host = components.host, !host.isEmpty else { return nil }
        }
        self.string = string
        self.components = components
    }

    /// Whether a client that registered these URIs may use this one.
    func isRegistered(in uris: [String]) -> Bool {
        uris.lazy.compactMap(RedirectURI.init).contains { $0.covers(self) }
    }

    /// Whether a client that registered this URI may use `other`: both are the same, or both are on
    /// the same loopback address and differ in the port only (RFC 8252 section 7.3).
    private func covers(_ other: RedirectURI) -> Bool {
        if string == other.string { return true }
        guard isLoopback, other.isLoopback else { return false }
        return components.host == other.components.host
            && components.percentEncodedPath == other.components.percentEncodedPath
            && components.percentEncodedQuery == other.components.percentEncodedQuery
    }

    /// The source that a page's `form-action` policy needs so that a form can redirect here: an
    /// origin, or an app's scheme.
    var contentSecuritySource: String {
        guard let scheme = components.scheme else { return "'none'" }
        guard scheme == "http" || scheme == "https", let host = components.host else {
            return "\(scheme):"
        }
        return "\(scheme)://\(host)" + (components.port.map { ":\($0)" } ?? "")
    }

    /// The URI with more query parameters.
    func adding(_ parameters: [(name: String, value: String)]) -> String {
        let added = FormEncoding.encode(parameters)
        let separator = components.percentEncodedQuery.map { $0.isEmpty ? "" : "&" } ?? "?"
        return added.isEmpty ? string : string + separator + added
    }

    /// Whether only one site can receive a redirect to this URI. Any local program can listen on a
    /// loopback address, and any program can register a private scheme.
    var isOfOneSite: Bool { components.scheme?.lowercased() == "https" }

    private var isLoopback: Bool {
        components.scheme == "http" && ["127.0.0.1", "[::1]", "::1"].contains(components.host)
    }
}
