internal import Latchkey

/// A logged-in user's tokens.
struct Session: Sendable {
    let userID: String
    let refreshToken: SecretBytes
    /// The latest ID token, expired or not.
    var idToken: String?
    /// Only ever in memory.
    var access: AccessToken?
    /// The generation of the stored row; 0 where the session is in memory only.
    var generation = 0
}
