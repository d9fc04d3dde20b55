internal import Latchkey

/// How an operation gets to use a private key.
enum TokenAccess: Sendable {
    /// The key needs no login.
    case open
    /// With a proof that was just given; the login then serves for that time.
    case login(LoginProof, LoginTerm)
    /// With the login of a proof that was given less than so many seconds ago.
    case kept(within: Int)
}
