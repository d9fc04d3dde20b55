import LatchkeyRelyingParty

extension OAuthError {
    /// A bearer token that is good for nothing here (RFC 6750 section 3.1).
    static func invalidToken(_ description: String) -> OAuthError {
        OAuthError(status: 401, "invalid_token", description)
    }

    /// A bearer token that is good, but not for this (RFC 6750 section 3.1).
    static func insufficientScope(_ scope: String) -> OAuthError {
        OAuthError(status: 403, "insufficient_scope", "the access token needs the scope \(scope)")
    }

    /// A session that did not begin as it must have, or too long ago.
    static func insufficientUserAuthentication(maximumAge: Int? = nil) -> OAuthError {
        OAuthError(
            status: 403, "insufficient_user_authentication", "the user has to be authenticated again",
            maximumAge: maximumAge)
    }
}
