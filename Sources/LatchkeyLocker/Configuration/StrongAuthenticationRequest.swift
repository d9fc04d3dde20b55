/// A request for strong authentication.
public struct StrongAuthenticationRequest: Hashable, Sendable {
    /// The server's authorization endpoint, an absolute URL.
    public let authorizationEndpoint: String
    /// The app's `client_id` at the server.
    public let clientID: String
    /// Scopes, separated by spaces.
    public let scope: String
    /// What the authorization request must carry: the ID token is refused without it.
    public let nonce: String
    /// Where the answer goes, if the configuration says.
    public let redirectURI: String?
    /// The server's issuer. An authorization response whose `iss` is another one must be refused (RFC 9207).
    public let issuer: String
    /// Whether the server announces that each authorization response has an `iss`: one without it must be refused then.
    public let requiresIssuer: Bool
}
