package import FoundationEssentials
package import Latchkey

/// The limit on a user's fingers that do not match. A state machine over given times.
///
/// After five such fingers in a row, the user's requests are refused for a minute; after each
/// further five, twice as long, at most an hour. The right PIN ends the lockout too.
///
/// The times are of a clock that cannot be set, that runs during suspension and that starts with
/// the machine. After a restart of the machine a lockout therefore lasts as long as before or
/// longer, never shorter.
package struct FingerAttempts: Codable, Hashable, Sendable {
    package static let failuresUntilLock = 5
    package static let firstLock: Duration = .seconds(60)
    package static let longestLock: Duration = .seconds(3600)

    private var failures = 0
    /// The start of the last lockout.
    private var lockStart: ContinuousClock.Instant?
    /// Whether a verification runs.
    private var isUnderWay = false
    /// The index of the PIN that the user had when a finger matched last.
    package private(set) var confirmedPIN: Data?
    /// The index of the PIN whose use ends the lockout.
    package var watchedPIN: Data?

    package init() {}

    /// The time for which the user's requests are refused; nil if they are accepted.
    package func lock(at now: ContinuousClock.Instant) -> Duration? {
        guard let lockStart else { return nil }
        let doublings = max(0, min(failures / Self.failuresUntilLock - 1, 10))
        let end = lockStart + min(Self.longestLock, Self.firstLock * (1 << doublings))
        return end > now ? end - now : nil
    }

    /// A verification begins. An earlier one whose end was not recorded counts as failed.
    package mutating func begin(at now: ContinuousClock.Instant) {
        resume(at: now)
        isUnderWay = true
    }

    /// The service begins. A verification that runs according to the record was interrupted by the
    /// end of the service, and counts as failed: it may have had a result.
    package mutating func resume(at now: ContinuousClock.Instant) {
        if isUnderWay { fail(at: now) }
        // The machine was restarted, and its clock with it.
        if let lockStart, lockStart > now { self.lockStart = now }
    }

    /// The verification had no result.
    package mutating func end() { isUnderWay = false }

    package mutating func fail(at now: ContinuousClock.Instant) {
        isUnderWay = false
        failures += 1
        guard failures % Self.failuresUntilLock == 0 else { return }
        lockStart = now
        watchedPIN = nil
    }

    package mutating func match(confirming pin: Data?) {
        unlock()
        confirmedPIN = pin
    }

    package mutating func unlock() {
        isUnderWay = false
        failures = 0
        lockStart = nil
        watchedPIN = nil
    }
}

extension ApprovalAuthority {
    package func fingerAttempts(of user: UInt32) -> FingerAttempts {
        store.user(user).fingers ?? FingerAttempts()
    }

    /// Changes the count of a user's fingers that did not match. The change is on the disk when
    /// this returns.
    ///
    /// - Throws: `KeystoreError` if it cannot be written; the count is then unchanged.
    package func changeFingerAttempts(
        of user: UInt32, _ change: @escaping @Sendable (inout FingerAttempts) -> Void
    ) async throws(KeystoreError) {
        do throws(KeystoreError) {
            try await work { (_, store) in
                var attempts = store.user(user).fingers ?? FingerAttempts()
                change(&attempts)
                guard attempts != store.user(user).fingers ?? FingerAttempts() else { return }
                try store.update(user) { [attempts] in $0.fingers = attempts }
            }
        } catch { throw error.during("count the fingers that did not match") }
    }
}
