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
    /// The request for background access, which everybody shares, and the session in which it was begun.
    var background: (task: Task<Result<AuthSessionStatus, BackgroundAccessError>, Never>, epoch: Int)?

    func status(_ offline: OfflineVerification?) -> AuthSessionStatus {
        let phase = machine?.phase ?? .unregistered
        let hasEasyAccess = machine?.hasEasyAccess ?? false
        return AuthSessionStatus(
            phase: phase, isEasyAccessEnabled: hasEasyAccess,
            accessToken: phase.isActive ? token : phase == .backgroundAccess ? narrowToken : nil,
            offlineAttemptsLeft: hasEasyAccess ? offline.map { max(0, $0.maximumAttempts - counters.failures) } : nil)
    }

    /// Gives up what does not belong to the session as it is now: tokens, and the request of one that has ended.
    mutating func closeRest() {
        let phase = machine?.phase ?? .unregistered
        if let background, background.epoch != machine?.epoch {
            background.task.cancel()
            self.background = nil
        }
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
