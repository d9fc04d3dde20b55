/// Which proof a session must have at least.
public enum RequiredLevel: String, Hashable, Sendable, CaseIterable {
    /// Easy access where it is enabled, else strong authentication.
    case any
    /// Easy access, and nothing else.
    case easyAccess
    /// Strong authentication.
    case strong
}
