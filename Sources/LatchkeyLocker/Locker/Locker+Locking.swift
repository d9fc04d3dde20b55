internal import Synchronization

/// The end of a session, in one moment.
extension Locker {
    /// Locks the session at once, whatever call is under way; that call opens nothing any more.
    func lock(_ operation: String) throws(ErsteGroupAuthError) {
        var step: SessionMachine.Step?
        close(.locked) { state in
            step = state.machine?.begin(.lock)
            return step != nil
        }
        switch step {
        case nil: throw .refusal(operation, .notInitialized)
        case .refuse(let code): throw .refusal(operation, code)
        case .succeed, .fail, .perform: break
        }
    }

    /// Gives up what an end of the session closes: keys, tokens, proofs, and what was asked of the server in it.
    ///
    /// - Parameter end: Ends the session in the machine, and returns whether it did.
    func close(_ cause: AuthSessionChange.Cause, _ end: (inout LockerState) -> Bool) {
        let change = state.withLock { state -> (old: AuthSessionStatus, new: AuthSessionStatus)? in
            let old = state.status(configuration.offlineVerification)
            guard end(&state) else { return nil }
            state.closeRest()
            keyring.adopt(state.enrolment.map { [.base: $0.baseKey] } ?? [:], in: state.machine?.phase ?? .unregistered)
            return (old, state.status(configuration.offlineVerification))
        }
        guard let change else { return }
        forgetProofs()
        if change.old != change.new { tell(change.old, change.new, cause) }
    }
}
