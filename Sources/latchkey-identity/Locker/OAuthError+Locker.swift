import FoundationEssentials
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

extension RateLimiter {
    /// Counts one event, or refuses it and says when to come again.
    func require(_ name: String) throws(OAuthError) {
        guard !admit(name) else { return }
        throw OAuthError(
            status: 429, "rate_limited", "there were too many requests", retryAfter: secondsToWait(name))
    }

    /// Whole seconds until the next event of this name will be admitted, at least one.
    func secondsToWait(_ name: String) -> Int {
        max(1, Int((wait(name) ?? 0).rounded(.up)))
    }
}
