internal import LatchkeyHTTP
public import LatchkeyOAuth

/// Strong authentication in a browser, the answer on a loopback port (RFC 8252).
public struct BrowserChannel: StrongAuthenticationChannel {
    private let browser: any Browser
    private let timeout: Duration

    /// - Parameter timeout: How long the person may take.
    public init(_ browser: any Browser, timeout: Duration = .seconds(600)) {
        self.browser = browser
        self.timeout = timeout
    }

    public func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode {
        guard let page = Endpoint(request.authorizationEndpoint) else {
            throw ErsteGroupAuthError.invalidResponse("the login page has no secure address")
        }
        let grant = try await AuthorizationRequest(
            clientID: request.clientID, scope: request.scope,
            options: AuthorizationOptions(prompt: [.login], timeout: timeout),
            issuer: request.issuer, requiresIssuer: request.requiresIssuer, hint: nil,
            nonce: request.nonce
        ).grant(at: page, in: browser)
        return AuthorizationCode(code: grant.code, codeVerifier: grant.codeVerifier, redirectURI: grant.redirectURI)
    }
}
