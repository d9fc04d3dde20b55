import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// New random tokens of a session. The client gets them after they are stored.
struct NewTokens: Sendable {
    let access = OpaqueToken.bytes()
    /// Seconds.
    let expiresIn: Int
    /// The thumbprint of the key to which the access token is bound; nil for a bearer token.
    let keyThumbprint: String?
    /// nil if the client gets none.
    let refresh: RefreshToken?
}

/// The response of the token endpoint (RFC 6749 section 5.1, OpenID Connect Core section 3.1.3.3).
struct TokenResponse: Sendable, Encodable {
    let accessToken: String
    /// `Bearer` or `DPoP`.
    let tokenType: String
    /// Seconds.
    let expiresIn: Int
    let refreshToken: String?
    let idToken: String?
    /// Space-separated. Required if the client requested other scopes (RFC 6749 section 5.1).
    let scope: String
    /// The level shares, with a locker grant.
    let levelShares: [String: String]?

    /// - Parameters:
    ///   - session: The session to which the tokens were added.
    ///   - levelShares: With a locker grant.
    init(
        _ tokens: NewTokens, of session: Session, idToken: String?,
        levelShares: [String: String]? = nil
    ) {
        accessToken = tokens.access
        tokenType = tokens.keyThumbprint == nil ? "Bearer" : "DPoP"
        expiresIn = tokens.expiresIn
        refreshToken = tokens.refresh?.text
        self.idToken = idToken
        scope = session.grant.scope
        self.levelShares = levelShares
    }

    enum CodingKeys: String, CodingKey {
        case accessToken = "access_token"
        case tokenType = "token_type"
        case expiresIn = "expires_in"
        case refreshToken = "refresh_token"
        case idToken = "id_token"
        case scope
        case levelShares = "level_shares"
    }
}

/// A random string that refers to a database row. The database stores only its ``digest(_:)``.
enum OpaqueToken {
    private static let alphabet = Array(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")

    /// 32 letters and digits: 190 bits.
    static func alphanumeric() -> String {
        String((0..<32).map { _ in alphabet[.random(in: alphabet.indices)] })
    }

    /// 32 random bytes in base64url.
    static func bytes() -> String { Base64URL.encode(Data.random(32)) }

    /// SHA-256 of the token, 32 bytes.
    static func digest(_ token: String) -> Data { Data(MessageDigest(sha256: token.utf8).bytes) }
}

/// A refresh token: the grant's ID, a part that all refresh tokens of the grant share, and a part of
/// its own. The grant's row has the digests of the shared part and of the current token. So a replaced
/// token is recognized without a row of its own, and only a holder can present one.
struct RefreshToken: Sendable {
    /// Seconds from the login.
    static let lifetime = 364 * 86_400.0
    /// Seconds from the last use.
    static let idleTimeout = 30 * 86_400.0
    private static let partLength = 32

    let text: String
    let grantID: String
    private let family: Substring

    /// A first token for a grant.
    init(grantID: String) {
        self.init(grantID, family: Substring(OpaqueToken.alphanumeric()))
    }

    /// The token that replaces this one.
    var successor: RefreshToken { RefreshToken(grantID, family: family) }

    /// - Returns: nil if the text has another form.
    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].utf8.count == 2 * Self.partLength else { return nil }
        (self.text, grantID, family) = (
            text, String(parts[0]), parts[1].prefix(Self.partLength)
        )
    }

    private init(_ grantID: String, family: Substring) {
        (self.grantID, self.family) = (grantID, family)
        text = "\(grantID).\(family)\(OpaqueToken.alphanumeric())"
    }

    var digest: Data { OpaqueToken.digest(text) }
    var familyDigest: Data { OpaqueToken.digest(String(family)) }
}

extension Data {
    /// Creates `count` bytes from the system's random number generator.
    static func random(_ count: Int) -> Data {
        Data((0..<count).map { _ in .random(in: .min ... .max) })
    }
}

/// The scopes that this server supports.
enum Scope {
    static let openID = "openid"
    static let offlineAccess = "offline_access"
    static let fullAccess = "https://authgear.com/scopes/full-access"
    static let profile = "profile"

    static let all = [openID, offlineAccess, fullAccess, profile, "email"]
    /// The scopes that a background token can have, and its default.
    static let background = [openID, profile]
    /// The default scopes of a biometric login.
    static let deviceDefault = [openID, offlineAccess, fullAccess]
    /// The default scopes of easy access. Without `offline_access`: the session ends with its
    /// access token, because the device can begin another with a new signature.
    static let easyAccessDefault = [openID, fullAccess]

    /// Checks the scopes that a client requests.
    static func validate(_ scopes: [String], among allowed: [String] = all) throws(OAuthError) {
        if let unknown = scopes.first(where: { !allowed.contains($0) }) {
            throw .invalidScope("specified scope is not allowed: \(unknown)")
        }
    }

    /// Checks the scopes that a client requests for a user.
    static func validateLogin(_ scopes: [String]) throws(OAuthError) {
        try validate(scopes)
        guard scopes.contains(openID) else { throw .invalidScope("must request 'openid' scope") }
    }

    /// Checks the scopes that a device requests for a biometric login.
    static func validateBiometric(_ scopes: [String]) throws(OAuthError) {
        try validateLogin(scopes)
        guard scopes.contains(offlineAccess), scopes.contains(fullAccess) else {
            throw .invalidScope("offline_access and full-access must be requested")
        }
    }
}
