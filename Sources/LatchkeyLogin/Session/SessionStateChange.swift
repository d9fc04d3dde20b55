/// A session state and how it came about.
public struct SessionStateChange: Hashable, Sendable {
    /// How it came about.
    public enum Reason: String, Hashable, Sendable {
        /// No session is stored.
        case noToken = "NO_TOKEN"
        /// A stored session was found, or the session was refreshed.
        case foundToken = "FOUND_TOKEN"
        /// Somebody logged in.
        case authenticated = "AUTHENTICATED"
        /// Somebody logged out.
        case logout = "LOGOUT"
        /// The server ended the session.
        case invalid = "INVALID"
        /// The session was forgotten on this device only.
        case clear = "CLEAR"
    }

    /// What it is now.
    public let state: SessionState
    /// How it came about.
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
