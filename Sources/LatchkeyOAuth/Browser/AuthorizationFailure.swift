package import Latchkey

/// Why a login in the browser gave no code.
package enum AuthorizationFailure: Error, Hashable, Sendable {
    /// The task was cancelled.
    case cancelled
    /// Nobody finished the login in time.
    case timedOut
    /// The link to the login page was followed twice: once perhaps by somebody else.
    case linkReused
    /// No port on the loopback interface can be opened; the text says why.
    case noPort(String)
    /// The server's error response (RFC 6749 section 4.1.2.1).
    case refused(OAuth2Error)
    /// The response is another issuer's, or does not name its issuer although the server announces it (RFC 9207).
    case otherIssuer(String?, expected: String)
}

extension AuthorizationFailure {
    /// Why a response of another issuer is refused, as a clause.
    package static func reason(forIssuer named: String?, expected: String) -> String {
        guard let named else {
            return "the authorization response does not name its issuer, although the server announces that it does"
        }
        return
            "the authorization response comes from ‘\(String(oneLine: named, limit: 256))’ and not from ‘\(expected)’"
    }
}
