internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

extension Locker {
    /// Has the hardware check the secret, when there is no network: the key of the level `offline` is sealed under it.
    ///
    /// The attempt is counted before the hardware looks at it, so that nobody gets one for nothing by pulling a plug. A
    /// person who declines has made none.
    func verifyOffline(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        guard let rules = configuration.offlineVerification,
            let easyAccess = try enrolment(context.operation).easyAccess
        else { throw ErsteGroupAuthError.refusal(context.operation, .easyAccessDisabled) }
        // What is stored counts, not what this program remembers: another may have counted meanwhile.
        var counters = try await rows.counters(for: context.prompt, authorizedBy: NobodyPresent())
        let memory = draft.counters ?? state.withLock { $0.counters }
        counters.failures = max(counters.failures, memory.failures)
        guard !counters.isTooOld(at: now, maximumAge: rules.maximumAge) else {
            throw unavailable(context, "the last start with a network was too long ago, or the clock was set")
        }
        guard counters.failures < rules.maximumAttempts else {
            throw unavailable(context, "the secret was wrong too often")
        }
        let before = counters
        counters.failures += 1
        counters.see(now)
        _ = try await store([LockerRows.put(counters)], context)
        draft.counters = counters
        do {
            let key = try await rows.offlineKey(
                in: easyAccess.offlineClass, for: context.prompt, authorizedBy: context.consent)
            counters.failures = 0
            draft.levels = [.offline: key]
        } catch {
            guard error.code != .wrongProof && error.code != .damaged else { throw error }
            counters.failures = before.failures
            try await forgive(counters, context, &draft)
            throw error
        }
        try await forgive(counters, context, &draft)
    }

    /// Stores the count although the call was cancelled meanwhile.
    private func forgive(
        _ counters: LockerCounters, _ context: FlowContext, _ draft: inout SessionDraft
    ) async throws {
        _ = try await finish { try await self.store([LockerRows.put(counters)], context) }
        draft.counters = counters
    }

    private func unavailable(_ context: FlowContext, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: context.operation, code: .verificationUnavailable, reason: reason,
            recovery: "Start the session with a network.")
    }
}
