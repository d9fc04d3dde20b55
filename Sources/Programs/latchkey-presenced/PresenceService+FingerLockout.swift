import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// The lockout of a user's fingers after too many fingers did not match. The right PIN, which the
/// TPM checks, ends it.
///
/// Each change is on the disk when these functions return. If it cannot be written, they throw, and
/// the caller approves nothing.
extension PresenceService {
    /// Records that a verification begins. If the service ends before ``recordMatch(of:)``,
    /// ``recordFailure(of:)`` or ``recordEnd(of:)``, it counts as a finger that did not match.
    func recordStart(of user: UInt32) async throws(KeystoreError) {
        try await authority.changeFingerAttempts(of: user) { $0.begin(at: .now) }
    }

    /// Records a verification without a result.
    func recordEnd(of user: UInt32) async throws(KeystoreError) {
        try await authority.changeFingerAttempts(of: user) { $0.end() }
    }

    /// Records a match, and the PIN that the user has at this time. Any program of the user can set
    /// a first PIN, so only such a PIN ends a lockout.
    func recordMatch(of user: UInt32) async throws(KeystoreError) {
        let pin = try? await authority.pinIndex(of: user)
        try await authority.changeFingerAttempts(of: user) { $0.match(confirming: pin) }
    }

    /// Counts a finger that did not match. If this starts a lockout, prepares to detect the right
    /// PIN.
    func recordFailure(of user: UInt32) async throws(KeystoreError) {
        try await authority.changeFingerAttempts(of: user) { $0.fail(at: .now) }
        let attempts = authority.fingerAttempts(of: user)
        guard attempts.lock(at: .now) != nil, let confirmed = attempts.confirmedPIN else { return }
        do throws(KeystoreError) {
            guard let index = try await authority.watchPIN(of: user), index == confirmed else {
                return
            }
            try await authority.changeFingerAttempts(of: user) {
                if $0 == attempts { $0.watchedPIN = index }
            }
        } catch {
            log.notice(
                "the PIN cannot end the lockout of fingers",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
        }
    }

    /// The time until the user's lockout ends; nil without a lockout, or if the user has entered
    /// the right PIN since it began.
    func fingerLock(of user: UInt32) async -> Duration? {
        let attempts = authority.fingerAttempts(of: user)
        guard let lock = attempts.lock(at: .now) else { return nil }
        do throws(KeystoreError) {
            guard let watched = attempts.watchedPIN,
                try await authority.isPINGiven(by: user, since: watched)
            else { return lock }
            try await authority.changeFingerAttempts(of: user) {
                if $0 == attempts { $0.unlock() }
            }
        } catch {
            log.error(
                "the lockout of fingers was not ended",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
        }
        guard authority.fingerAttempts(of: user).lock(at: .now) == nil else { return lock }
        log.notice("the right PIN ended the lockout of fingers", metadata: ["uid": "\(user)"])
        return nil
    }

    static func locked(_ lock: Duration) -> Bus.Reply {
        refuse(
            .lockedOut, "too many fingers did not match",
            "Wait until \(end(of: lock, from: Date()).formatted(.iso8601)), or use your PIN.")
    }

    /// The end of a lock by the wall clock, in whole seconds and never early.
    static func end(of lock: Duration, from now: Date) -> Date {
        let seconds = now.timeIntervalSince1970 + lock / .seconds(1)
        return Date(timeIntervalSince1970: seconds.rounded(.up))
    }
}
