internal import FoundationEssentials
internal import LatchkeyOAuth

/// An access token and when to stop using it.
struct AccessToken: Sendable {
    /// Which part of its life a token is used for; the rest is the margin for slow networks and clocks.
    static let usedLife = 0.9

    let value: String
    let refreshAt: Date

    init(_ response: TokenResponse, receivedAt: Date) {
        value = response.accessToken
        refreshAt = receivedAt.addingTimeInterval(Double(response.expiresIn) * Self.usedLife)
    }
}

extension AccessToken: CustomStringConvertible, CustomReflectable {
    var description: String { "‹access token›" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
