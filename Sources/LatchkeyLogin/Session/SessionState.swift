/// Whether somebody is logged in.
public enum SessionState: String, Hashable, Sendable, Codable {
    /// Nobody is logged in here.
    case noSession = "NO_SESSION"
    /// There is a session, as far as this device knows.
    case authenticated = "AUTHENTICATED"
}
