import Latchkey
import LatchkeyCredentials
import LatchkeyLocker
import LatchkeyVault

/// The credentials of a user, by a claim's name.
func credentials(of email: String) throws -> [Credential] {
    try Credential.find { $0[.email] == email }
}

/// The lines of a page about an account.
func lines(
    about token: Token, of user: Credential.UserInfo, _ vault: Vault<String>,
    after change: AuthSessionChange
) -> [String] {
    let hasEnded = change.old.phase.isActive && !change.new.phase.isActive
    return [
        "\(user[.email]?.string ?? "no address") at \(token.context.issuer)",
        "\(token.tokenType) for \(token.context.clientID) and \(token.audience)",
        "since \(token.issuedAt), for \(token.expiresIn ?? 0) seconds",
        vault.biometricsEnabled ? "with biometrics" : "without biometrics",
        hasEnded || change.new.accessToken?.isExpired() == true ? "log in again" : "logged in",
    ]
}
