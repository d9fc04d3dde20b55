internal import FoundationEssentials
internal import LatchkeyOAuth

/// An access token and its refresh time.
struct LoginAccessToken: Sendable {
    /// The part of a token's lifetime in which it is used. The rest allows for slow networks and
    /// clock differences.
    static let usedLife = 0.9

    let value: String
    let refreshAt: Date
    /// The value of the field `Authorization`.
    let authorization: String
    /// Whether each request with the token needs a proof of the session's key.
    let isBound: Bool

    init(_ response: TokenResponse, receivedAt: Date) throws(TokenResponseFlaw) {
        value = response.accessToken
        authorization = try response.authorization
        isBound = response.isBound
        refreshAt = receivedAt.addingTimeInterval(response.lifetime * Self.usedLife)
    }
}

extension LoginAccessToken: CustomStringConvertible, CustomReflectable {
    var description: String { "‹access token›" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
