/// How a session stands at one moment.
public struct AuthSessionStatus: Hashable, Sendable {
    /// Which of the six it is.
    public let phase: SessionPhase
    /// Whether there is a secret with which the next start is an easy one. Without it, that takes strong authentication.
    public let isEasyAccessEnabled: Bool
    /// The token of full scope in an active session, the narrow one in background access; it may have expired.
    public let accessToken: AccessToken?
    /// How often the secret may still be wrong without a network; nil where that is not allowed at all.
    public let offlineAttemptsLeft: Int?

    /// Whether there is a token of full scope, perhaps an expired one.
    public var isActive: Bool { phase.isActive }
}
