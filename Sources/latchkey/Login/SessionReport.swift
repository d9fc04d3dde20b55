import LatchkeyLogin

/// Who is logged in now.
struct SessionReport: Report {
    let container: String
    let userInfo: UserInfo
    /// The key with which, if it was one.
    let kid: String?

    var text: String {
        let name = userInfo.preferredUsername ?? userInfo.email ?? userInfo.name
        return "Logged in as \(printable(name.map { "\($0) (\(userInfo.userID))" } ?? userInfo.userID))."
    }
}
