internal import Latchkey
internal import Synchronization

/// Other programs with the same store.
extension Locker {
    /// Goes along with what another program has made of the enrolment since this one read or stored it: starts and changes
    /// of easy access begin with this. What is open in memory doesn't hear of it before.
    ///
    /// - Throws: ``ErsteGroupAuthError``; `enrolmentRevoked` when the enrolment is gone, or is another by now.
    func keepUp(_ context: FlowContext) async throws(ErsteGroupAuthError) {
        let known = state.withLock { $0.enrolment }
        let stored: Enrolment?
        let counters: LockerCounters
        do throws(KeystoreError) {
            // Needs no hardware, so it costs nothing where nothing has changed.
            let generation = try await rows.records.metadata(LockerRows.enrolmentID)?.generation
            guard generation != known?.generation else { return }
            stored = try await rows.enrolment(for: context.prompt, authorizedBy: NobodyPresent())
            counters = try await rows.counters(for: context.prompt, authorizedBy: NobodyPresent())
        } catch {
            throw ErsteGroupAuthError(context.operation, error)
        }
        if let stored { try check(stored, context.operation) }
        let isSame = stored?.id == known?.id
        var hasEnded = false
        close(.elsewhere) { state in
            // A call of this program's own has changed it meanwhile.
            guard state.enrolment?.generation == known?.generation, state.flow == nil else { return false }
            state.machine?.reload(isEnrolled: stored != nil, isSame: isSame, hasEasyAccess: stored?.easyAccess != nil)
            state.enrolment = stored
            state.counters = counters
            hasEnded = known != nil && !isSame
            return true
        }
        guard !hasEnded else {
            throw ErsteGroupAuthError(
                operation: context.operation, code: .enrolmentRevoked,
                reason: "another program has destroyed this device's enrolment",
                recovery: "Start a session to go on with the enrolment that there is now, or with a new one.")
        }
    }

    /// - Throws: ``ErsteGroupAuthError`` with code `environmentChanged`.
    func check(_ enrolment: Enrolment, _ operation: String) throws(ErsteGroupAuthError) {
        guard enrolment.issuer == configuration.issuer, enrolment.clientID == configuration.clientID else {
            throw ErsteGroupAuthError(
                operation: operation, code: .environmentChanged,
                reason: "this device is enrolled with another server or client",
                recovery: "Use another container, or destroy that enrolment first.")
        }
    }
}
