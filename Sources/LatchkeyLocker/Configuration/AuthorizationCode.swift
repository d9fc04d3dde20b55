internal import Latchkey

/// What a login brings: a code, and what it is exchanged with.
public struct AuthorizationCode: Hashable, Sendable {
    let code: String
    let codeVerifier: String
    /// Where the server sent the code; nil for the configured address.
    let redirectURI: String?

    /// - Parameters:
    ///   - code: The code, as the server gave it.
    ///   - codeVerifier: The verifier of PKCE (RFC 7636), of whose hash the authorization request had the challenge.
    ///   - redirectURI: The redirect URI of the authorization request: nil for the configured one, or one on the loopback
    ///     interface. Any other is refused.
    public init(code: String, codeVerifier: String, redirectURI: String? = nil) {
        self.code = code
        self.codeVerifier = codeVerifier
        self.redirectURI = redirectURI
    }
}

extension AuthorizationCode: CustomStringConvertible, CustomReflectable {
    public var description: String { "‹authorization code›" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
