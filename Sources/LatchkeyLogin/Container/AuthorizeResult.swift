public import Latchkey

/// A login that worked.
public struct AuthorizeResult: Hashable, Sendable {
    /// What the server says about the user.
    public let userInfo: UserInfo
    /// The biometric key that was used, or nil after a login in the browser.
    public let keyID: KeyID?
}
