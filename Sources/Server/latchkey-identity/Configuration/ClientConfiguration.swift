import FoundationEssentials
import Latchkey

/// An app that may use this server.
struct ClientConfiguration: Sendable, Codable {
    var id: String
    var name: String?
    var redirectURIs: [String] = []
    /// Seconds. The default is that of deployed Authgear servers.
    var accessTokenLifetime = 1_800
    /// Whether tokens are bound to a key of the client.
    var dpop = TokenBinding.optional
    /// Replaces `attestation.require` for this client.
    var attestationRequire: String?

    /// The file's names, before their conversion to snake case.
    enum CodingKeys: String, CodingKey {
        case id = "clientId"
        case name
        case redirectURIs = "redirectUris"
        case accessTokenLifetime = "accessTokenLifetimeSeconds"
        case dpop
        case attestationRequire
    }

    /// - Parameter place: The client's place in the file.
    func validate(_ place: String, _ check: inout ConfigurationCheck) {
        check.require(
            (1...200).contains(id.utf8.count), "\(place).client_id",
            "must have 1 to 200 bytes, and has \(id.utf8.count)")
        check.require(
            !redirectURIs.isEmpty, "\(place).redirect_uris",
            "no user can log in without a redirect address",
            "Register one, for example http://127.0.0.1/callback for any port.")
        for (index, uri) in redirectURIs.enumerated() {
            check.require(
                RedirectURI(uri) != nil, "\(place).redirect_uris.\(index)",
                "\(String(quoted: uri, limit: 200)) cannot be a redirect address",
                "Use https, http with 127.0.0.1, [::1] or localhost, or your app's scheme with a period, "
                    + "such as com.example.app:/done, without user, password and fragment.")
        }
        check.require(
            accessTokenLifetime >= 1, "\(place).access_token_lifetime_seconds",
            "must be at least 1")
    }
}

/// The target of a redirect that a client can have (RFC 8252 sections 7 and 8.4).
struct RedirectURI: Hashable, Sendable {
    let string: String
    private let components: URLComponents

    /// - Returns: nil unless `string` is an absolute URI with https, with http and a loopback
    ///   address, or with a private scheme, which contains a period; or if it has a fragment, user,
    ///   password or a character that is invalid in a URI.
    init?(_ string: String) {
        guard
            string.utf8.count <= 2_000, string.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
            let components = URLComponents(string: string),
            let scheme = components.scheme?.lowercased(),
            !string.contains("#"), components.user == nil, components.password == nil
        else { return nil }
        let isPermitted =
            switch scheme {
            case "https": components.host?.isEmpty == false
            case "http": components.host == "localhost" || Self.isLoopback(components)
            default: scheme.contains(".")
            }
        guard isPermitted else { return nil }
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
        guard Self.isLoopback(components), Self.isLoopback(other.components) else { return false }
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

    private static func isLoopback(_ components: URLComponents) -> Bool {
        components.scheme == "http" && ["127.0.0.1", "[::1]", "::1"].contains(components.host)
    }
}
