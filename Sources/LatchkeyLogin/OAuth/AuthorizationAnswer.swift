/// How a login in the browser ended.
enum AuthorizationAnswer: Hashable, Sendable {
    case code(String)
    case refused(OAuthError)
    /// The link to the login page was followed twice: once perhaps by somebody else, who may be at that page now.
    case linkReused
}
