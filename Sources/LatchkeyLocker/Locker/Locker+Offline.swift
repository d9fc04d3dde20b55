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
        let now = now
        draft.counters = try await count(context) { counters in
            guard !counters.isTooOld(at: now, maximumAge: rules.maximumAge) else {
                throw unavailable(context, "the last start with a network was too long ago, or the clock was set")
            }
            guard counters.failures < rules.maximumAttempts else {
                throw unavailable(context, "the secret was wrong too often")
            }
            counters.failures += 1
            counters.see(now)
        }
        do {
            let key = try await rows.offlineKey(
                in: easyAccess.offlineClass, for: context.prompt, authorizedBy: context.consent)
            draft.levels = [.offline: key]
        } catch {
            guard error.code != .wrongProof && error.code != .damaged else { throw error }
            draft.counters = try await finish {
                try await self.count(context) { $0.failures = max(0, $0.failures - 1) }
            }
            throw error
        }
        draft.counters = try await finish { try await self.count(context) { $0.failures = 0 } }
    }

    /// Changes the counters as they are stored, whatever this program remembers: another may have counted meanwhile. Who
    /// is overtaken by another program begins again.
    func count(
        _ context: FlowContext, _ change: (inout LockerCounters) throws -> Void
    ) async throws -> LockerCounters {
        while true {
            var counters = try await rows.counters(for: context.prompt, authorizedBy: NobodyPresent())
            let generation = counters.generation
            try change(&counters)
            // Where nothing is stored, the enrolment is gone, and nothing is to be left of it.
            guard generation > 0 else { return counters }
            do throws(KeystoreError) {
                _ = try await store([LockerRows.put(counters, ifGeneration: generation)], context)
                return counters
            } catch {
                guard error.code == .conflict else { throw error }
            }
        }
    }

    private func unavailable(_ context: FlowContext, _ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            operation: context.operation, code: .verificationUnavailable, reason: reason,
            recovery: "Start the session with a network.")
    }
}
