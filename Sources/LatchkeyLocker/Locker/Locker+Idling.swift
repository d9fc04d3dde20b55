internal import FoundationEssentials
internal import Synchronization

/// Locking a session that nobody uses.
extension Locker {
    /// Says that somebody is using the session, so that ``LockerConfiguration/sessionIdleTimeout`` begins anew. Starting a
    /// session, encrypting and decrypting say so by themselves; reading the status, background access, a prompt that is
    /// open and a start that fails don't.
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
        close(.idle) { state in
            guard let lastUse = state.lastUse, lastUse.age(at: now) >= timeout else { return false }
            return state.machine?.idle() ?? false
        }
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
            return max(.zero, timeout - lastUse.age(at: now))
        }
    }
}
