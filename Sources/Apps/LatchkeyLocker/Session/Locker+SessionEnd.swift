internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

/// The end of a session: by a lock, by time without use, or by a change of another program.
extension Locker {
    /// Locks the session immediately. A running call does not open it again.
    func lock() throws(ErsteGroupAuthError) {
        var step: SessionMachine.Step?
        close(.locked) { state in
            step = state.machine?.begin(.lock)
            return step != nil
        }
        switch step {
        case nil: throw .refusal(.notInitialized)
        case .refuse(let code): throw .refusal(code)
        case .succeed, .fail, .perform: break
        }
    }

    /// Ends the session: closes keys and tokens, forgets proofs, and cancels the request for
    /// background access.
    ///
    /// - Parameter end: Ends the session in the machine, and returns whether there was one to end.
    func close(_ cause: AuthSessionChange.Cause, _ end: (inout LockerState) -> Bool) {
        let change = state.withLock { state -> (old: AuthSessionStatus, new: AuthSessionStatus)? in
            let old = state.status(configuration.offlineVerification)
            guard end(&state) else { return nil }
            state.discardStale()
            keyring.adopt(
                state.enrolment.map { [.base: $0.baseKey] } ?? [:],
                in: state.machine?.phase ?? .unregistered)
            return (old, state.status(configuration.offlineVerification))
        }
        guard let change else { return }
        forgetProofs()
        if change.old != change.new { publish(change.old, change.new, cause: cause) }
    }
}

/// Locks a session after a time without use.
extension Locker {
    /// Records that the user is active, which restarts the `sessionIdleTimeout` of
    /// ``LockerConfiguration``. Starting a session, encrypting and decrypting do this too. Reading
    /// the status, background access, an open prompt and a failed start do not.
    public func noteUse() {
        guard configuration.sessionIdleTimeout != nil else { return }
        lockIfIdle()
        let use = SessionUse(at: now)
        state.withLock { $0.lastUse = use }
    }

    /// Starts the timer that locks an open session after its time without use.
    func watchIdleness() {
        guard configuration.sessionIdleTimeout != nil else { return }
        state.withLock { state in
            guard state.machine?.phase.isOpen == true, state.idleTimer == nil else { return }
            // The timer does not keep the locker alive.
            state.idleTimer = Task { [weak self] in
                while let rest = self?.restUntilIdle() {
                    do { try await Task.sleep(for: rest) } catch { return }
                    self?.lockIfIdle()
                }
            }
        }
    }

    /// Locks a session whose time without use is over.
    func lockIfIdle() {
        guard let timeout = configuration.sessionIdleTimeout else { return }
        let now = now
        close(.idle) { state in
            guard let lastUse = state.lastUse, lastUse.age(at: now) >= timeout else { return false }
            return state.machine?.idle() ?? false
        }
    }

    /// The time until the next check; nil if no session is open, which ends the timer.
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

/// A moment at which a session was used, by two clocks: one that can be set, and one that runs also
/// while the machine sleeps.
struct SessionUse: Sendable {
    let date: Date
    private let instant: ContinuousClock.Instant

    init(at date: Date) {
        self.date = date
        instant = .now
    }

    /// The time since then. If the clocks differ, the longer time counts, so that setting a clock
    /// does not extend a session.
    func age(at now: Date) -> Duration {
        max(.seconds(now.timeIntervalSince(date)), instant.duration(to: .now))
    }
}

/// Changes by other programs that use the same store.
extension Locker {
    /// Applies the changes that another program has made to the enrolment since this one read or
    /// stored it. Starts and changes of easy access begin with this. Until then, open keys in
    /// memory stay open.
    ///
    /// - Throws: ``ErsteGroupAuthError``; `enrolmentRevoked` if the enrolment is deleted or
    ///   replaced.
    func reloadIfChanged(_ context: FlowContext) async throws {
        let known = state.withLock { $0.enrolment }
        // The metadata is read without the hardware, so this is fast if the enrolment has not
        // changed.
        guard
            try await rows.records.metadata(LockerRows.enrolmentID)?.generation != known?.generation
        else { return }
        let stored = try await rows.enrolment(for: context.prompt, authorizedBy: NobodyPresent())
        let counters = try await rows.counters(for: context.prompt, authorizedBy: NobodyPresent())
        if let stored { try checkConfiguration(of: stored) }
        let isSame = stored?.id == known?.id
        var hasEnded = false
        close(.elsewhere) { state in
            // Another call of this program has changed the enrolment.
            guard state.enrolment?.generation == known?.generation, state.flow == nil else {
                return false
            }
            state.machine?.reload(
                isEnrolled: stored != nil, isSame: isSame, hasEasyAccess: stored?.easyAccess != nil)
            state.enrolment = stored
            state.counters = counters
            hasEnded = known != nil && !isSame
            return true
        }
        guard !hasEnded else {
            throw ErsteGroupAuthError(
                code: .enrolmentRevoked,
                reason: "another program has destroyed this device's enrolment",
                recovery: "Start a session to use the current enrolment, or to enrol again.")
        }
    }

    /// - Throws: ``ErsteGroupAuthError`` with code `environmentChanged`.
    func checkConfiguration(of enrolment: Enrolment) throws(ErsteGroupAuthError) {
        guard enrolment.issuer == configuration.issuer, enrolment.clientID == configuration.clientID
        else {
            throw ErsteGroupAuthError(
                code: .environmentChanged,
                reason: "this device is enrolled with another server or client",
                recovery: "Use another container, or destroy that enrolment first.")
        }
    }
}
