import FoundationEssentials
import Latchkey
import LatchkeyTPM
import Logging

/// The lockout of a user's fingers after too many fingers did not match. The right PIN, which the
/// TPM checks, ends it.
extension PresenceService {
    /// A PIN whose use ends a lockout.
    struct WatchedPIN: Equatable {
        let index: Data
        let start: ContinuousClock.Instant
    }

    /// Notes the PIN that the user has while a finger matches. Any program of the user can set a
    /// first PIN, so only a noted PIN ends a lockout.
    func notePIN(of user: UInt32) async {
        confirmedPINs[user] = try? await authority.pinIndex(of: user)
    }

    /// Counts a finger that did not match. If this starts a lockout, prepares to detect the right
    /// PIN.
    func recordFailure(of user: UInt32) async {
        limit.recordFailure(user, at: .now)
        guard limit.lock(of: user, at: .now) != nil else { return }
        watchedPINs[user] = nil
        guard let confirmed = confirmedPINs[user] else { return }
        do throws(KeystoreError) {
            guard let index = try await authority.watchPIN(of: user), index == confirmed else {
                return
            }
            watchedPINs[user] = WatchedPIN(index: index, start: .now)
        } catch {
            log.notice(
                "the PIN cannot end the lockout of fingers",
                metadata: ["uid": "\(user)", "reason": "\(error.reason)"])
        }
    }

    /// The time until the user's lockout ends; nil without a lockout, or if the user has entered
    /// the right PIN since it began.
    func fingerLock(of user: UInt32) async -> Duration? {
        guard let lock = limit.lock(of: user, at: .now) else { return nil }
        guard let watched = watchedPINs[user],
            (try? await authority.isPINGiven(by: user, since: watched.index)) == true,
            watchedPINs[user] == watched
        else { return lock }
        log.notice("the right PIN ended the lockout of fingers", metadata: ["uid": "\(user)"])
        recordMatch(of: user)
        return nil
    }

    func recordMatch(of user: UInt32) {
        limit.recordMatch(user)
        watchedPINs[user] = nil
    }
}
