/// How the user proves to the server who it is: strong authentication by OAuth 2.0's authorization code with PKCE.
public protocol StrongAuthenticationChannel: Sendable {
    /// Has the user log in, and returns what the server gave for it. Is cancelled with the call that wants it.
    ///
    /// The authorization request must ask for a login anew, by `prompt=login` or `max_age=0`: the server's ID token says
    /// when the user logged in (`auth_time`), and one from before is refused.
    func authorize(_ request: StrongAuthenticationRequest) async throws -> AuthorizationCode
}
