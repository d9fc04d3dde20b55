internal import Latchkey

/// A token as it was a moment ago.
struct TokenSight: Sendable {
    let token: Token
    let information: TokenInformation
    let nature: TokenNature
    /// The public half of the key that was looked for, where it is there.
    let publicKey: PublicKey?
    let login: LoginKeeper
}
