public import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The status of a session at one moment.
public struct AuthSessionStatus: Hashable, Sendable {
    /// The phase: one of six.
    public let phase: SessionPhase
    /// Whether easy access is enabled. Without it, the next start requires strong authentication.
    public let isEasyAccessEnabled: Bool
    /// The token of full scope in an active session, or the narrow one in background access. It may
    /// have expired.
    public let accessToken: AccessToken?
    /// The number of wrong secrets that are still allowed without a network; nil if offline
    /// verification is off.
    public let offlineAttemptsLeft: Int?

    /// Whether there is a token of full scope, perhaps an expired one.
    public var isActive: Bool { phase.isActive }
}

/// The phase of a session: the six statuses of a locker.
public enum SessionPhase: String, Hashable, Sendable, Codable, CaseIterable {
    /// This device is not enrolled.
    case unregistered
    /// The device is enrolled, and there is no token.
    case enrolled
    /// There is a token, from strong authentication.
    case activeViaStrongAuth
    /// There is a token, from easy access.
    case activeViaEasyAccess
    /// There is a token of narrow scope, from background access without user verification.
    case backgroundAccess
    /// The hardware verified the user without a network. There is no token.
    case verifiedOffline

    /// Whether there is a token of full scope, perhaps an expired one.
    public var isActive: Bool { self == .activeViaStrongAuth || self == .activeViaEasyAccess }

    /// Whether more levels are open than without a session.
    var isOpen: Bool { self != .unregistered && self != .enrolled }

    /// The levels whose keys are in memory in this phase. Text of other levels can't be encrypted
    /// or decrypted.
    package var openLevels: Set<ProtectionLevel> {
        switch self {
        case .unregistered: []
        case .enrolled: [.base]
        case .backgroundAccess: [.base, .background]
        case .verifiedOffline: [.base, .offline]
        case .activeViaStrongAuth, .activeViaEasyAccess: Set(ProtectionLevel.allCases)
        }
    }
}

/// A change of the status, reported after it was stored.
public struct AuthSessionChange: Hashable, Sendable {
    /// What led to it.
    public enum Cause: Hashable, Sendable {
        /// A session was started, or its token renewed.
        case started
        /// Background access was granted.
        case backgroundAccess
        /// The session was locked.
        case locked
        /// The session was not used for the time that the configuration allows.
        case idle
        /// The enrolment was destroyed at this device.
        case destroyed
        /// Easy access was enabled.
        case easyAccessEnabled
        /// Easy access was disabled.
        case easyAccessDisabled
        /// Easy access got another PIN or key.
        case easyAccessChanged
        /// Another program that uses the same store has changed the enrolment.
        case elsewhere
        /// The server or the hardware revoked the enrolment, easy access or a key.
        case revoked
    }

    /// The status before.
    public let old: AuthSessionStatus
    /// The status now.
    public let new: AuthSessionStatus
    /// What led to it.
    public let cause: Cause
}

/// An access token of the session. When the session is locked or replaced, ``value`` becomes nil in
/// all copies.
public struct AccessToken: Hashable, Sendable {
    /// The time at which the server stops accepting it.
    public let expiresAt: Date
    /// The token's scopes.
    public let scopes: [String]
    /// The time of the login; nil if the token is not from strong authentication.
    let loggedInAt: Date?
    let handle: Handle

    /// - Parameter isBound: Whether each request with the token needs a proof of a key (RFC 9449).
    init(
        _ value: String, isBound: Bool = false, expiresAt: Date, scopes: [String],
        loggedInAt: Date? = nil
    ) {
        self.loggedInAt = loggedInAt
        self.expiresAt = expiresAt
        self.scopes = scopes
        handle = Handle(SecretBytes(value.utf8), isBound: isBound)
    }

    /// The bearer token, for the app's own servers only; nil after the session has ended. If the
    /// server binds it to this machine, ``Locker/authorizeRequest(_:nonce:)`` adds the proof that each
    /// request then needs.
    public var value: String? { handle.secret?.text }

    /// Whether it has expired.
    public func isExpired(at now: Date = Date()) -> Bool { now >= expiresAt }

    /// Whether the login is recent enough for the server to accept a new secret with this token.
    /// The server allows 300 seconds, and the user needs most of them to set the secret.
    func isOfFreshLogin(at now: Date) -> Bool {
        guard let loggedInAt, !isExpired(at: now) else { return false }
        return (0...60).contains(now.timeIntervalSince(loggedInAt))
    }

    /// The value that all copies share. A token equals only its copies.
    final class Handle: Hashable, Sendable {
        private let state: Mutex<SecretBytes?>

        let isBound: Bool

        init(_ secret: SecretBytes, isBound: Bool) {
            state = Mutex(secret)
            self.isBound = isBound
        }

        var secret: SecretBytes? { state.withLock { $0 } }

        /// The value of the field `Authorization` (RFC 6750 section 2.1, RFC 9449 section 7.1).
        var authorization: SecretBytes? {
            secret.map { SecretBytes("\(isBound ? "DPoP" : "Bearer") \($0.text)".utf8) }
        }

        func close() { state.withLock { $0 = nil } }

        static func == (left: Handle, right: Handle) -> Bool { left === right }
        func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
    }
}
