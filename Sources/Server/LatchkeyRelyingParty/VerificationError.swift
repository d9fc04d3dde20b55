package import Latchkey

/// The reason why a request or an attestation was refused. Two errors are equal if they have the
/// same ``code``.
///
/// Send only `oauthError` of a request to the client, which has fewer details. Log the rest.
public struct VerificationError<Reason: Sendable & RawRepresentable<String>>: Error,
    CustomStringConvertible
{
    /// The possible reasons of this kind of error.
    public typealias Code = Reason

    /// The reason.
    public let code: Code
    /// Details, for a log. With ``BiometricRequestReason/invalidAction`` the action itself.
    public let detail: String
    /// The unverified name of the key, for a log; nil if it is not known.
    package var keyID: KeyID?

    /// Creates an error.
    public init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    public var description: String { "\(code.rawValue): \(detail)" }
}

extension VerificationError: Equatable {
    public static func == (left: Self, right: Self) -> Bool { left.code == right.code }
}

/// An error response of a token endpoint (RFC 6749 section 5.2) with its HTTP status.
public struct OAuthError: Error, Hashable, Sendable {
    /// The HTTP status code.
    public let status: Int
    /// The member `error`.
    public let error: String
    /// The member `error_description`, in the characters of RFC 6749 section 5.2: others are
    /// replaced by `'` and `?`.
    public let description: String
    /// For the header `Retry-After`: seconds after which the client may retry.
    package let retryAfter: Int?
    /// For the parameter `max_age` of the header `WWW-Authenticate`: the maximum age in seconds of
    /// the required user authentication (RFC 9470 section 3).
    package let maximumAge: Int?
    /// The member `reason`: the cause of `attestation_refused`.
    package let reason: String?

    /// Creates a response.
    public init(status: Int = 400, _ error: String, _ description: String) {
        self.init(status, error, description)
    }

    package init(
        _ status: Int, _ error: String, _ description: String, retryAfter: Int? = nil,
        maximumAge: Int? = nil,
        reason: String? = nil
    ) {
        self.status = status
        self.error = error
        self.description = String(
            String.UnicodeScalarView(
                description.unicodeScalars.map { scalar in
                    switch scalar {
                    case "\"", "‘", "’": "'"
                    case "\\": "?"
                    case " "..."~": scalar
                    default: "?"
                    }
                }))
        self.retryAfter = retryAfter
        self.maximumAge = maximumAge
        self.reason = reason
    }

    /// `invalid_request`: a parameter is missing, malformed or repeated.
    public static func invalidRequest(_ description: String) -> OAuthError {
        OAuthError("invalid_request", description)
    }
    /// `invalid_grant`: the grant is invalid, expired or revoked.
    package static func invalidGrant(_ description: String) -> OAuthError {
        OAuthError("invalid_grant", description)
    }
    /// `invalid_scope`: the scopes are unknown or not allowed.
    package static func invalidScope(_ description: String) -> OAuthError {
        OAuthError("invalid_scope", description)
    }
    /// `unauthorized_client`: the client may not use this grant type.
    package static func unauthorizedClient(_ description: String) -> OAuthError {
        OAuthError("unauthorized_client", description)
    }

    /// 500: an error of the server.
    package static let serverError = OAuthError(
        status: 500, "server_error", "internal server error")
}
