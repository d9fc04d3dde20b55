import LatchkeyRelyingParty

/// The scopes that this server knows.
enum Scope {
    static let openID = "openid"
    static let offlineAccess = "offline_access"
    static let fullAccess = "https://authgear.com/scopes/full-access"
    static let profile = "profile"

    static let all = [openID, offlineAccess, fullAccess, profile, "email"]
    /// Those that a token may have that nobody was asked for.
    static let narrow = Set(all).subtracting([offlineAccess, fullAccess])
    /// What a device gets that asks for nothing in particular.
    static let deviceDefault = [openID, offlineAccess, fullAccess]

    /// What easy access gives to a device that asks for nothing in particular: a session that ends with its access token,
    /// for the device can begin another whenever its user is there.
    static let easyAccessDefault = [openID, fullAccess]

    /// Checks what a client asks for.
    static func validate(_ scopes: [String]) throws(OAuthError) {
        if let unknown = scopes.first(where: { !all.contains($0) }) {
            throw .invalidScope("specified scope is not allowed: \(unknown)")
        }
        guard scopes.contains(openID) else { throw .invalidScope("must request 'openid' scope") }
    }

    /// Checks what a device asks for when it logs in.
    static func validateBiometric(_ scopes: [String]) throws(OAuthError) {
        try validate(scopes)
        guard scopes.contains(offlineAccess), scopes.contains(fullAccess) else {
            throw .invalidScope("offline_access and full-access must be requested")
        }
    }
}
