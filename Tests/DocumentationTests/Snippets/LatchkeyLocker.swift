import Latchkey
import LatchkeyLocker

/// Starts a session and encrypts a text so that it opens in such a session only.
func protect(_ text: String, with locker: Locker) async throws -> String {
    let status = try await locker.startAuthSession()
    guard status.isActive else { throw ErsteGroupAuthError.init(of: status) }
    return try locker.encrypt(secret: text, protectionLevel: .active)
}

extension ErsteGroupAuthError {
    /// That no session came of it.
    init(of status: AuthSessionStatus) {
        self.init(
            operation: "protect a text", code: .notActive, reason: "the session is \(status.phase.rawValue)",
            recovery: "Log in and try again.")
    }
}
