/// How a login in the browser ended.
enum AuthorizationAnswer: Hashable, Sendable {
    case code(String)
    case refused(OAuthError)
}
