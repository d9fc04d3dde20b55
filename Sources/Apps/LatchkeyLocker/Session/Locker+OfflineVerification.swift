internal import FoundationEssentials
internal import Latchkey
internal import Synchronization

extension Locker {
    /// Verifies the secret with the hardware, without a network: the key of the level `offline` is
    /// sealed under it.
    func verifyOffline(_ context: FlowContext, _ draft: inout SessionDraft) async throws {
        guard let rules = configuration.offlineVerification,
            let easyAccess = try enrolment().easyAccess
        else { throw ErsteGroupAuthError.refusal(.easyAccessDisabled) }
        let now = now
        let key = try await countingAttempt(context, &draft) { counters in
            guard !counters.isTooOld(at: now, maximumAge: rules.maximumAge) else {
                throw Self.unavailable(
                    "the last start with a network was too long ago, or the clock was set back")
            }
            guard counters.failures < rules.maximumAttempts else {
                throw Self.unavailable("there were too many wrong secrets")
            }
            counters.see(now)
        } _: { presence in
            try await prompting { () throws(KeystoreError) in
                try await rows.offlineKey(
                    in: easyAccess.offlineClass, for: context.prompt, authorizedBy: presence)
            }
        }
        draft.levels = [.offline: key]
    }

    /// Lets the hardware check the secret once, with or without a network.
    ///
    /// The attempt is counted before the hardware checks the secret, so that cutting the power does
    /// not avoid the count. An attempt that ends without a wrong secret, such as a declined prompt,
    /// does not count. A correct secret resets the count.
    ///
    /// - Parameters:
    ///   - change: Checks and changes the counters before the attempt.
    ///   - attempt: Prompts with the given authority.
    func countingAttempt<Result>(
        _ context: FlowContext, _ draft: inout SessionDraft,
        _ change: (inout LockerCounters) throws -> Void = { _ in },
        _ attempt: (any PresenceAuthority) async throws -> Result
    ) async throws -> Result {
        let counters = try await count(context) { counters in
            try change(&counters)
            if counters.failures < .max { counters.failures += 1 }
        }
        draft.counters = counters
        let isLast = counters.failures >= configuration.maximumAttempts
        let result: Result
        do {
            result = try await attempt(
                WarningPresence(context.presence, isLast ? configuration.secretExhaustion : .wait))
        } catch {
            let code = (error as? KeystoreError)?.code
            guard code != .wrongProof && code != .damaged else { throw error }
            draft.counters = try await finish {
                try await self.count(context) { $0.failures = max(0, $0.failures - 1) }
            }
            throw error
        }
        draft.counters = try await finish { try await self.count(context) { $0.failures = 0 } }
        return result
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

/// Warns before the last wrong secret that the configuration allows.
private struct WarningPresence: PresenceAuthority {
    private let authority: PresenceSession
    private let warning: String?

    /// - Parameter exhaustion: What happens after a wrong secret now.
    init(_ authority: PresenceSession, _ exhaustion: SecretExhaustion) {
        self.authority = authority
        warning =
            switch exhaustion {
            case .disableEasyAccess: "A wrong PIN now disables easy access."
            case .destroyEnrolment: "A wrong PIN now deletes the enrolment and its data."
            case .wait: nil
            }
    }

    var broker: PresenceBroker? { authority.broker }
    var preference: PresencePreference { authority.preference }
    var acceptsEarlierProof: Bool { authority.acceptsEarlierProof }
    var isInteractive: Bool { authority.isInteractive }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        var request = request
        let hints = [warning, request.hint].compactMap(\.self)
        request.hint = hints.isEmpty ? nil : hints.joined(separator: " ")
        return try await authority.pin(request)
    }

    func notice(_ notice: PresenceNotice) async { await authority.notice(notice) }
    func accepted() { authority.accepted() }
    func rejected() { authority.rejected() }
}

/// The stored state that limits wrong secrets and offline verification.
struct LockerCounters: Hashable, Sendable {
    /// The number of seconds that the clock may go back. More means that it was set.
    static let clockLeeway: TimeInterval = 60

    /// The number of wrong secrets in a row, with or without a network.
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
