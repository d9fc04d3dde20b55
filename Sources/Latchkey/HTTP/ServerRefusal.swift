/// An answer that is no success, in the words that all facades have for it.
package struct ServerRefusal: Sendable {
    /// Whether the server only wants fewer requests.
    package let isRateLimit: Bool
    /// One clause: the cause.
    package let reason: String
    /// One sentence: what to do next.
    package let recovery: String

    /// - Parameters:
    ///   - error: What the server says, where it says so in the form of OAuth.
    ///   - status: The answer's status; nil for what came by a redirect.
    package init(_ error: OAuth2Error? = nil, status: Int?) {
        isRateLimit = status == 429 || error?.error == "x_rate_limited"
        if isRateLimit {
            reason = "the server takes no more requests for now"
            recovery = "Wait a minute, then try again."
        } else if let error {
            let words = error.description.map { " (\($0))" } ?? ""
            reason = "the server refused with ‘\(error.error)’\(words)"
            recovery = "Ask whoever runs the server what this means, or log in again."
        } else {
            reason = "the server answered" + (status.map { " with status \($0)" } ?? " with an error")
            recovery = "Check the server's address, and try again later."
        }
    }
}
