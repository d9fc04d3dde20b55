import Glibc

/// An account of this machine in an argument: its name, or its user ID, which remains after the
/// account was deleted.
enum Account {
    /// - Returns: nil for a text that is neither.
    static func userID(_ text: String) -> UInt32? {
        var buffer = [CChar](repeating: 0, count: 16384)
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        if getpwnam_r(text, &entry, &buffer, buffer.count, &found) == 0, found != nil {
            return entry.pw_uid
        }
        return UInt32(text).flatMap { "\($0)" == text && $0 != .max ? $0 : nil }
    }

    /// The name of an account; nil if the user ID has none.
    static func name(of user: UInt32) -> String? {
        getpwuid(user).map { String(cString: $0.pointee.pw_name) }
    }
}
