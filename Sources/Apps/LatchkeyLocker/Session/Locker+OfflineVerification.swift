internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

extension Locker {
    /// Verifies the secret with the hardware, without a network: the key of the level `offline` is
    /// sealed under it.
    ///
    /// The attempt is counted before the hardware checks the secret, so that cutting the power does
    /// not avoid the count. A declined prompt does not count.
    func verifyOffline(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        guard let rules = configuration.offlineVerification,
            let easyAccess = try enrolment().easyAccess
        else { throw ErsteGroupAuthError.refusal(.easyAccessDisabled) }
        let now = now
        draft.counters = try await count(context) { counters in
            guard !counters.isTooOld(at: now, maximumAge: rules.maximumAge) else {
                throw Self.unavailable(
                    "the last start with a network was too long ago, or the clock was set back")
            }
            guard counters.failures < rules.maximumAttempts else {
                throw Self.unavailable("there were too many wrong secrets")
            }
            counters.failures += 1
            counters.see(now)
        }
        do {
            let key = try await prompting { () throws(KeystoreError) in
                try await rows.offlineKey(
                    in: easyAccess.offlineClass, for: context.prompt, authorizedBy: context.presence
                )
            }
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

    /// Reads, changes and stores the counters. Repeats that if another program changes them at the
    /// same time.
    func count(
        _ context: FlowContext, _ change: (inout LockerCounters) throws -> Void
    ) async throws -> LockerCounters {
        while true {
            var counters = try await rows.counters(
                for: context.prompt, authorizedBy: NobodyPresent())
            let generation = counters.generation
            try change(&counters)
            // Without stored counters there is no enrolment, so nothing is written.
            guard generation > 0 else { return counters }
            do throws(KeystoreError) {
                _ = try await store([LockerRows.put(counters, ifGeneration: generation)], context)
                return counters
            } catch {
                guard error.code == .conflict else { throw error }
            }
        }
    }

    private static func unavailable(_ reason: String) -> ErsteGroupAuthError {
        ErsteGroupAuthError(
            code: .verificationUnavailable, reason: reason,
            recovery: "Connect to the network and try again.")
    }
}

/// The stored state that limits offline verification.
struct LockerCounters: Hashable, Sendable {
    /// The number of seconds that the clock may go back. More means that it was set.
    static let clockLeeway: TimeInterval = 60

    /// The number of wrong secrets in a row without a network.
    var failures = 0
    /// The last start with a network.
    var lastOnline: Date?
    /// The latest time that the clock has shown.
    var lastSeen: Date?
    /// The generation of the row; 0 if there is no row.
    var generation = 0

    init() {}

    init(_ attributes: [String: String], generation: Int) {
        self.generation = generation
        func date(_ name: String) -> Date? {
            attributes[name].flatMap(Int.init).map { Date(timeIntervalSince1970: TimeInterval($0)) }
        }
        // An unreadable count must not allow more attempts.
        failures = attributes["failures"].flatMap(Int.init) ?? Int.max
        lastOnline = date("lastOnline")
        lastSeen = date("lastSeen")
    }

    var attributes: [String: String] {
        var attributes = ["failures": String(failures)]
        attributes["lastOnline"] = lastOnline.map { String(Int($0.timeIntervalSince1970)) }
        attributes["lastSeen"] = lastSeen.map { String(Int($0.timeIntervalSince1970)) }
        return attributes
    }

    mutating func see(_ now: Date) {
        lastSeen = max(lastSeen ?? now, now)
    }

    /// Records a start with a network.
    mutating func reset(online now: Date) {
        // A clock that was ahead and was then corrected must not block later checks.
        lastSeen = now
        lastOnline = now
        failures = 0
    }

    /// Whether offline verification is refused because the last start with a network is older than
    /// `maximumAge`, or because the clock was set back.
    func isTooOld(at now: Date, maximumAge: Duration) -> Bool {
        guard let lastOnline, let lastSeen, now >= lastSeen.addingTimeInterval(-Self.clockLeeway)
        else { return true }
        return now.timeIntervalSince(lastOnline) > TimeInterval(maximumAge.components.seconds)
    }
}
