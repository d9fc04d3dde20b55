public import FoundationEssentials
public import LatchkeyJOSE
internal import LatchkeyOAuth

/// A server's metadata (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2), for the login
/// that an app makes itself.
///
/// The properties are checked: each is an `https` URL, or of this machine, and of the issuer's origin
/// or a trusted one, unless the server announces that its answers name their issuer (RFC 9207).
/// Other members are as the server sent them:
///
/// `let page: URL? = configuration["end_session_endpoint"]`
public struct OpenIdConfiguration: Sendable, HasClaims {
    /// All members of the document.
    public let claims: [String: JSONValue]
    /// The server's address.
    public let issuer: String
    /// The page of a login; nil if the server has none.
    public let authorizationEndpoint: URL?
    /// The endpoint that issues tokens.
    public let tokenEndpoint: URL

    init?(_ metadata: ProviderMetadata, _ tokenEndpoint: Endpoint) {
        guard let tokenEndpoint = URL(string: tokenEndpoint.text) else { return nil }
        claims = metadata.members
        issuer = metadata.issuer
        authorizationEndpoint = metadata[.authorization].flatMap { URL(string: $0.text) }
        self.tokenEndpoint = tokenEndpoint
    }
}
