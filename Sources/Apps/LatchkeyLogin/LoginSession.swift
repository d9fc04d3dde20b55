internal import FoundationEssentials
internal import Latchkey

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
