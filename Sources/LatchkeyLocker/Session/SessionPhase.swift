/// Where a session stands: the six statuses of the Locker.
public enum SessionPhase: String, Hashable, Sendable, Codable, CaseIterable {
    /// This device is enrolled for nobody.
    case unregistered
    /// It is enrolled, and there is no token.
    case enrolled
    /// There is a token, and strong authentication behind it.
    case activeViaStrongAuth
    /// There is a token, and easy access behind it.
    case activeViaEasyAccess
    /// There is a token of narrow scope, for which nobody was asked.
    case backgroundAccess
    /// The person was recognised by this device alone, since there was no network. There is no token.
    case verifiedOffline

    /// Whether there is a token of full scope, perhaps an expired one.
    public var isActive: Bool { self == .activeViaStrongAuth || self == .activeViaEasyAccess }

    /// Whether more is open than an enrolment alone opens.
    var isOpen: Bool { self != .unregistered && self != .enrolled }

    /// The levels whose keys are in memory then; every other level can be neither read nor written.
    public var openLevels: Set<ProtectionLevel> {
        switch self {
        case .unregistered: []
        case .enrolled: [.base]
        case .backgroundAccess: [.base, .background]
        case .verifiedOffline: [.base, .offline]
        case .activeViaStrongAuth, .activeViaEasyAccess: Set(ProtectionLevel.allCases)
        }
    }
}
