internal import FoundationEssentials
internal import Synchronization

/// Locking a session that nobody uses.
extension Locker {
    /// Says that somebody is using the session, so that ``LockerConfiguration/sessionIdleTimeout`` begins anew. Starting a
    /// session, encrypting and decrypting say so by themselves; reading the status and background access don't.
    public func noteUse() {
        guard configuration.sessionIdleTimeout != nil else { return }
        lockIfIdle()
        let use = SessionUse(at: now)
        state.withLock { $0.lastUse = use }
    }

    /// Sees to it that a session that is open is locked when nobody uses it any more.
    func watchIdleness() {
        guard configuration.sessionIdleTimeout != nil else { return }
        state.withLock { state in
            guard state.machine?.phase.isOpen == true, state.idleTimer == nil else { return }
            // The session lives no longer for being watched.
            state.idleTimer = Task { [weak self] in
                while let rest = self?.restUntilIdle() {
                    do { try await Task.sleep(for: rest) } catch { return }
                    self?.lockIfIdle()
                }
            }
        }
    }

    /// Locks a session that was idle for too long by now.
    func lockIfIdle() {
        guard let timeout = configuration.sessionIdleTimeout else { return }
        let now = now
        let change = state.withLock { state -> (old: AuthSessionStatus, new: AuthSessionStatus)? in
            let old = state.status(configuration.offlineVerification)
            guard let lastUse = state.lastUse, lastUse.age(at: now) >= timeout, state.machine?.idle() == true else {
                return nil
            }
            state.closeTokens()
            keyring.adopt([:], in: .enrolled)
            return (old, state.status(configuration.offlineVerification))
        }
        guard let change else { return }
        forgetProofs()
        tell(change.old, change.new, .idle)
    }

    /// How long to wait before looking again; nil when there is nothing to lock any more, which ends the watch.
    private func restUntilIdle() -> Duration? {
        guard let timeout = configuration.sessionIdleTimeout else { return nil }
        let now = now
        return state.withLock { state in
            guard state.machine?.phase.isOpen == true, let lastUse = state.lastUse else {
                state.idleTimer = nil
                return nil
            }
            // What somebody is asked counts as use when it ends.
            return state.machine?.isInteracting == true ? timeout : max(.zero, timeout - lastUse.age(at: now))
        }
    }
}
