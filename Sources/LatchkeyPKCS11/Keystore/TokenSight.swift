internal import Latchkey

/// A token as it was a moment ago.
struct TokenSight: Sendable {
    let token: Token
    let information: TokenInformation
    let nature: TokenNature
    /// The public half of the key that was looked for, where it is there.
    let publicKey: PublicKey?
    let login: LoginKeeper
    /// Whether a policy's time of reuse holds here.
    var keepsLogin = true
}

extension TokenSight {
    /// Whether a slot that holds a key shows it. YubiKeys tell since firmware 5.3, which ykcs11 writes as 5.30; before, a
    /// key without a certificate is seen by nobody.
    var showsOccupiedSlots: Bool {
        token.profile.family != .ykcs11
            || information.firmwareVersion >= ModuleInformation.Version(major: 5, minor: 30)
    }
}
