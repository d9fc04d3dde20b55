/// What a token endpoint says when it refuses (RFC 6749 section 5.2), with the HTTP status that goes with it.
public struct OAuthError: Error, Hashable, Sendable {
    /// The HTTP status code.
    public var status: Int
    /// The member `error`.
    public var error: String
    /// The member `error_description`.
    public var description: String
    /// For the header `Retry-After`: seconds after which the same request may be tried again.
    public var retryAfter: Int?
    /// For the parameter `max_age` of the header `WWW-Authenticate`: an authentication of the user that is at most this
    /// many seconds old would do (RFC 9470 section 3).
    public var maximumAge: Int?

    /// An answer with this code.
    public init(
        status: Int = 400, _ error: String, _ description: String, retryAfter: Int? = nil, maximumAge: Int? = nil
    ) {
        self.status = status
        self.error = error
        self.description = description
        self.retryAfter = retryAfter
        self.maximumAge = maximumAge
    }

    /// `invalid_request`: a parameter is missing, malformed or there twice.
    public static func invalidRequest(_ description: String) -> OAuthError {
        OAuthError("invalid_request", description)
    }
    /// `invalid_grant`: what was brought is not good, or not good any more.
    public static func invalidGrant(_ description: String) -> OAuthError { OAuthError("invalid_grant", description) }
    /// `invalid_scope`: the scopes are unknown, or more than may be had.
    public static func invalidScope(_ description: String) -> OAuthError { OAuthError("invalid_scope", description) }
    /// `unauthorized_client`: this client may not do that.
    public static func unauthorizedClient(_ description: String) -> OAuthError {
        OAuthError("unauthorized_client", description)
    }

    /// Too many requests: 429.
    public static let rateLimited = OAuthError(
        status: 429, "x_rate_limited", "rate limit exceeded, please try again later.")
    /// Something that the client can't mend: 500.
    public static let serverError = OAuthError(status: 500, "server_error", "internal server error")
    /// The one answer to every biometric request that proves nothing.
    public static let invalidCredentials = OAuthError.invalidGrant("InvalidCredentials")
}
