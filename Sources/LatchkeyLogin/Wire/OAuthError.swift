public import Latchkey

/// The server's OAuth error, by the name that the iOS SDK has for it.
public typealias OAuthError = OAuth2Error
