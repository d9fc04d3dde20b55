import LatchkeyPlatform

extension Account {
    /// The user for whom a user's calls and connections count; nil stands for all users without a
    /// name. A user with subordinate user IDs (subuid(5)) has thousands of them, and would otherwise
    /// get that many times the answers.
    static func share(
        of user: UInt32, hasName: (UInt32) -> Bool = { Account.name(of: $0) != nil }
    ) -> UInt32? {
        hasName(user) ? user : nil
    }
}
