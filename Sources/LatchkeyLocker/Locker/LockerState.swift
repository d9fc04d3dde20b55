internal import FoundationEssentials

/// What a locker has in memory, beside the keys of levels.
struct LockerState: Sendable {
    /// nil until the locker was opened.
    var machine: SessionMachine?
    var enrolment: Enrolment?
    var counters = LockerCounters()
    /// The token of an active session.
    var token: AccessToken?
    /// The token of background access.
    var narrowToken: AccessToken?
    /// The call that may be asking somebody.
    var flow: Task<Result<AuthSessionStatus, ErsteGroupAuthError>, Never>?
    /// When the session was used last.
    var lastUse: SessionUse?
    /// Locks the session when nobody uses it.
    var idleTimer: Task<Void, Never>?
    /// The request for background access, which everybody shares.
    var background: Task<Result<AuthSessionStatus, BackgroundAccessError>, Never>?

    func status(_ offline: OfflineVerification?) -> AuthSessionStatus {
        let phase = machine?.phase ?? .unregistered
        let hasEasyAccess = machine?.hasEasyAccess ?? false
        return AuthSessionStatus(
            phase: phase, isEasyAccessEnabled: hasEasyAccess,
            accessToken: phase.isActive ? token : phase == .backgroundAccess ? narrowToken : nil,
            offlineAttemptsLeft: hasEasyAccess ? offline.map { max(0, $0.maximumAttempts - counters.failures) } : nil)
    }

    /// Gives up the tokens that don't belong to the phase.
    mutating func closeTokens() {
        let phase = machine?.phase ?? .unregistered
        if !phase.isActive {
            token?.handle.close()
            token = nil
        }
        if !phase.isActive && phase != .backgroundAccess {
            narrowToken?.handle.close()
            narrowToken = nil
        }
    }
}
