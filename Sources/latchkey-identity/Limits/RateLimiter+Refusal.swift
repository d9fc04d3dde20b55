import FoundationEssentials
import LatchkeyRelyingParty

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
