import LatchkeyPlatform

extension Account {
    /// The user ID of an account in an argument: its name, or the number, which remains after the
    /// account was deleted.
    ///
    /// - Returns: nil for a text that is neither.
    static func userID(_ text: String) -> UInt32? {
        if let user = try? userID(named: text) { return user }
        return UInt32(text).flatMap { "\($0)" == text && $0 != .max ? $0 : nil }
    }
}
