public import LatchkeyOAuth

/// The options of a new authentication of the session's user.
public struct ReauthenticationOptions: Hashable, Sendable {
    let maximumAge: Duration
    let usesBiometric: Bool
    let reason: String?
    let authorization: AuthorizationOptions

    /// - Parameters:
    ///   - maximumAge: How long ago the user may have been authenticated on the login page; at
    ///     least 0. If the server knows a later login, it may show no page. Fractions of a second
    ///     are dropped.
    ///   - usesBiometric: Whether the container's key authenticates the user if biometric login is
    ///     enabled. Otherwise the browser shows the server's login page.
    ///   - reason: The reason in the prompt, as the end of "APPLICATION asks for your PIN to …". If
    ///     nil, it names the server.
    ///   - authorization: The options of the login page. The request also names the session's user.
    public init(
        maximumAge: Duration = .zero, usesBiometric: Bool = true, reason: String? = nil,
        authorization: AuthorizationOptions = AuthorizationOptions()
    ) {
        self.maximumAge = maximumAge
        self.usesBiometric = usesBiometric
        self.reason = reason
        self.authorization = authorization
    }
}
