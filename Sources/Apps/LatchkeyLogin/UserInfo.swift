package import Latchkey
public import LatchkeyJOSE
internal import LatchkeyOAuth

/// The server's claims about the user (OpenID Connect Core section 5.3).
///
/// It encodes to the JSON object that the server sent.
public struct UserInfo: Hashable, Sendable {
    /// All claims, `sub` included.
    public let claims: [String: JSONValue]

    /// The user's id (`sub`).
    public let userID: String

    /// Whether the user has no way to log in yet; nil if the claim is missing.
    public var isAnonymous: Bool? { claims["https://authgear.com/claims/user/is_anonymous"]?.bool }
    /// Whether the user has verified an address; nil if the claim is missing.
    public var isVerified: Bool? { claims["https://authgear.com/claims/user/is_verified"]?.bool }
    /// Whether the user can authenticate again; nil if the claim is missing.
    public var canReauthenticate: Bool? {
        claims["https://authgear.com/claims/user/can_reauthenticate"]?.bool
    }
    /// The full name in display form.
    public var name: String? { claims["name"]?.string }
    /// The short name that the user prefers; not unique.
    public var preferredUsername: String? { claims["preferred_username"]?.string }
    /// The preferred email address.
    public var email: String? { claims["email"]?.string }

    /// The name by which a program can show the user in place of the ID; nil for names that cannot
    /// be shown in a line.
    var shownName: String? {
        [preferredUsername, email, name].lazy.compactMap(\.self)
            .first { $0.isName(maximumBytes: 256) }
    }
}

extension UserInfo: Codable {
    private enum CodingKeys: CodingKey { case sub }

    public init(from decoder: any Decoder) throws {
        claims = try [String: JSONValue](from: decoder)
        let members = try decoder.container(keyedBy: CodingKeys.self)
        userID = try members.decode(String.self, forKey: .sub)
        guard IDToken.isSubject(userID) else {
            throw DecodingError.dataCorruptedError(
                forKey: .sub, in: members, debugDescription: "not a user's ID")
        }
    }

    public func encode(to encoder: any Encoder) throws {
        try claims.encode(to: encoder)
    }
}

/// The result of a login.
public struct AuthorizeResult: Hashable, Sendable {
    /// The server's claims about the user.
    public let userInfo: UserInfo
    /// The biometric key of the login; nil after a login in the browser.
    package let keyID: KeyID?
}
