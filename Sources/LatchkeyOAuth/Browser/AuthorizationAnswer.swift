package import Latchkey

/// How a login in the browser ended.
package enum AuthorizationAnswer: Hashable, Sendable {
    case code(String)
    /// The error response (RFC 6749 section 4.1.2.1).
    case refused(OAuth2Error)
    /// The link to the login page was followed twice: once perhaps by somebody else, who may be at that page now.
    case linkReused
}
