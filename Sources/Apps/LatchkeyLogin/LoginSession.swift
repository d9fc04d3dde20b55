internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyOAuth

/// The state of a login session.
public enum SessionState: String, Hashable, Sendable, Codable {
    /// No user is logged in on this device.
    case noSession = "NO_SESSION"
    /// This device has a session. The server may have ended it.
    case authenticated = "AUTHENTICATED"
}

/// A session state and the reason for it.
public struct SessionStateChange: Hashable, Sendable {
    /// The cause of a state.
    public enum Reason: Hashable, Sendable {
        /// No session is stored.
        case noToken
        /// A stored session was found, or the session was refreshed.
        case foundToken
        /// A user logged in.
        case authenticated
        /// The user logged out.
        case logout
        /// The server ended the session.
        case invalid
        /// The session was deleted on this device only.
        case clear
    }

    /// The new state.
    public let state: SessionState
    /// The reason for it.
    public let reason: Reason

    init(_ reason: Reason) {
        self.reason = reason
        state =
            switch reason {
            case .foundToken, .authenticated: .authenticated
            case .noToken, .logout, .invalid, .clear: .noSession
            }
    }
}

/// The tokens of a logged-in user.
struct LoginSession: Sendable {
    let userID: String
    var refreshToken: SecretBytes
    /// The latest ID token, expired or not.
    var idToken: String?
    /// The key to which the tokens are bound, if any.
    let boundKey: KeyID?
    /// Never stored.
    var access: LoginAccessToken?
    /// The generation of the stored row; 0 for a session in memory only.
    var generation = 0
}

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

extension LoginSession {
    /// The encrypted payload of a session's row, as JSON.
    private struct Stored: Codable {
        let userID: String
        let refreshToken: String
        let idToken: String?
        let boundKey: KeyID?
    }

    /// - Returns: nil for a payload that can't be decoded.
    init?(_ payload: SecretBytes, generation: Int) {
        let stored = payload.withUnsafeBytes {
            try? JSONDecoder().decode(Stored.self, from: Data($0))
        }
        guard let stored else { return nil }
        self.init(
            userID: stored.userID, refreshToken: SecretBytes(stored.refreshToken.utf8),
            idToken: stored.idToken, boundKey: stored.boundKey,
            generation: generation)
    }

    var payload: SecretBytes {
        get throws {
            let stored = Stored(
                userID: userID, refreshToken: refreshToken.text, idToken: idToken,
                boundKey: boundKey)
            return SecretBytes(try JSONEncoder().encode(stored))
        }
    }
}
