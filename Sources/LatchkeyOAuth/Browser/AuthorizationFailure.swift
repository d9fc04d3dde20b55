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
}
