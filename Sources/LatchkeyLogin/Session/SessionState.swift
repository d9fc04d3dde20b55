/// Whether somebody is logged in.
public enum SessionState: String, Hashable, Sendable, Codable {
    case noSession = "NO_SESSION"
    case authenticated = "AUTHENTICATED"
}
