/// An error response of a token endpoint (RFC 6749 section 5.2) with its HTTP status.
public struct OAuthError: Error, Hashable, Sendable {
    /// The HTTP status code.
    public var status: Int
    /// The member `error`.
    public var error: String
    /// The member `error_description`.
    public var description: String
    /// For the header `Retry-After`: seconds after which the client may retry.
    package var retryAfter: Int?
    /// For the parameter `max_age` of the header `WWW-Authenticate`: the maximum age in seconds of the required user
    /// authentication (RFC 9470 section 3).
    package var maximumAge: Int?

    /// Creates a response.
    public init(status: Int = 400, _ error: String, _ description: String) {
        self.status = status
        self.error = error
        self.description = description
    }

    /// `invalid_request`: a parameter is missing, malformed or repeated.
    public static func invalidRequest(_ description: String) -> OAuthError {
        OAuthError("invalid_request", description)
    }
    /// `invalid_grant`: the grant is invalid, expired or revoked.
    package static func invalidGrant(_ description: String) -> OAuthError { OAuthError("invalid_grant", description) }
    /// `invalid_scope`: the scopes are unknown or not allowed.
    package static func invalidScope(_ description: String) -> OAuthError { OAuthError("invalid_scope", description) }
    /// `unauthorized_client`: the client may not use this grant type.
    package static func unauthorizedClient(_ description: String) -> OAuthError {
        OAuthError("unauthorized_client", description)
    }

    /// 429: too many requests.
    package static let rateLimited = OAuthError(
        status: 429, "x_rate_limited", "rate limit exceeded, please try again later.")
    /// 500: an error of the server.
    package static let serverError = OAuthError(status: 500, "server_error", "internal server error")
    /// The response to all biometric requests whose proof is invalid.
    package static let invalidCredentials = OAuthError.invalidGrant("InvalidCredentials")
}
