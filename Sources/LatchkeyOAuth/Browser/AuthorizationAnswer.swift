package import Latchkey

/// How a login in the browser ended.
package enum AuthorizationAnswer: Hashable, Sendable {
    case code(String)
    /// The error response (RFC 6749 section 4.1.2.1).
    case refused(OAuth2Error)
    /// The response is another issuer's, or does not name its issuer although the server announces it (RFC 9207).
    case otherIssuer(String?)
    /// The link to the login page was followed twice: once perhaps by somebody else, who may be at that page now.
    case linkReused
}
