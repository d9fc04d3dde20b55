internal import Latchkey
public import LatchkeyOAuth

/// Lets the user log in at the server: strong authentication with the authorization code of OAuth
/// 2.0 and PKCE.
public protocol StrongAuthenticationChannel: Sendable {
    /// Lets the user log in, and returns the server's authorization code. It is cancelled with the
    /// call that needs it.
    ///
    /// The authorization request must ask for a new login, with `prompt=login` or `max_age=0`. The
    /// server's ID token states the time of the login (`auth_time`), and an earlier login is
    /// refused.
    func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode
}

/// A request for strong authentication.
public struct StrongAuthenticationRequest: Hashable, Sendable {
    /// The server's authorization endpoint, an absolute URL.
    public let authorizationEndpoint: String
    /// The app's `client_id` at the server.
    public let clientID: String
    /// Scopes, separated by spaces.
    public let scope: String
    /// The nonce for the authorization request. An ID token with another nonce is refused.
    public let nonce: String
    /// The configured redirect URI, if there is one.
    public let redirectURI: String?
    /// The server's issuer. An authorization response whose `iss` is another one must be refused
    /// (RFC 9207).
    public let issuer: String
    /// Whether the server announces that each authorization response has an `iss`. A response
    /// without it must then be refused.
    public let requiresIssuer: Bool
    /// The value of `dpop_jkt` in the authorization request (RFC 9449 section 10): only the key with
    /// this thumbprint can then redeem the code. nil if the server binds no tokens.
    public let keyThumbprint: String?
}

/// An authorization code, with the values that exchange it for tokens.
public struct AuthorizationCode: Sendable {
    let code: SecretBytes
    let codeVerifier: SecretBytes
    /// The redirect URI that received the code; nil for the configured one.
    let redirectURI: String?

    /// - Parameters:
    /// - code: The code that the server issued.
    /// - codeVerifier: The PKCE verifier (RFC 7636) whose hash was the challenge in the
    ///   authorization request.
    /// - redirectURI: The redirect URI of the authorization request: nil for the configured one, or
    ///   one on the loopback interface. Any other is refused.
    public init(code: String, codeVerifier: String, redirectURI: String? = nil) {
        self.code = SecretBytes(code.utf8)
        self.codeVerifier = SecretBytes(codeVerifier.utf8)
        self.redirectURI = redirectURI
    }
}

/// Strong authentication in a browser, the answer on a loopback port (RFC 8252).
public struct BrowserChannel: StrongAuthenticationChannel {
    private let browser: any Browser
    private let timeout: Duration

    /// - Parameter timeout: How long the person may take.
    public init(_ browser: any Browser, timeout: Duration = .seconds(600)) {
        self.browser = browser
        self.timeout = timeout
    }

    public func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode
    {
        guard let page = Endpoint(request.authorizationEndpoint) else {
            throw ErsteGroupAuthError.invalidResponse("the login page has no secure address")
        }
        let grant = try await AuthorizationRequest(
            clientID: request.clientID, scope: request.scope,
            options: AuthorizationOptions(prompt: [.login], timeout: timeout),
            issuer: request.issuer, requiresIssuer: request.requiresIssuer, hint: nil,
            keyThumbprint: request.keyThumbprint, nonce: request.nonce
        ).grant(at: page, in: browser)
        return AuthorizationCode(
            code: grant.code, codeVerifier: grant.codeVerifier, redirectURI: grant.redirectURI)
    }
}
