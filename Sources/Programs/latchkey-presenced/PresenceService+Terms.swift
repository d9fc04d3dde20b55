import Crypto
import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Logging

extension PresenceService {
    /// Whether the caller can be prompted for a finger now.
    func state(for requester: BusRequester) async -> FingerState {
        if let lock = await fingerLock(of: requester.user) {
            return .lockedOut(until: Self.end(of: lock, from: Date()))
        }
        guard let name = requester.userName else { return .notAvailable("the user has no name") }
        do throws(BusError) {
            let found = try await reader.find()
            return try await reader.enrolledFingers(of: name, in: found).isEmpty
                ? .notEnrolled : .ready
        } catch {
            return .notAvailable(
                error.isAbsence ? "fprintd is not running" : "there is no fingerprint reader")
        }
    }

    /// The terms that the caller's keys must be bound to under a policy.
    func terms(for requester: BusRequester, _ arguments: [BusValue]) async throws(KeystoreError)
        -> PresenceTerms
    {
        guard let policy = PresenceWire.policy(arguments) else {
            throw .invalidInput("the policy is invalid")
        }
        guard !policy.isBoundToFingers || requester.isAccount else {
            throw Self.noAccount
        }
        guard policy.hasFinger else {
            return try await authority.terms(for: requester.user, policy, enrolmentSet: nil)
        }
        let set: Data
        let fingers: [String]
        do throws(BusError) {
            (fingers, set) = try await enrolment(of: requester.userName, in: reader.find())
        } catch {
            throw KeystoreError(
                code: .unavailable,
                reason: error.isAbsence
                    ? "fprintd is not running" : "there is no fingerprint reader",
                recovery: Recovery(
                    "Connect a fingerprint reader and install fprintd.", .restartReader,
                    .choosePolicy))
        }
        // Also if the last finger was deleted.
        if authority.isBoundToFingers(requester.user) {
            try await authority.note(set, of: requester.user)
        }
        guard !fingers.isEmpty else {
            throw KeystoreError(
                code: .notEnrolled, reason: "you have no finger enrolled",
                recovery: Recovery("Enrol one with fprintd-enroll.", .choosePolicy))
        }
        return try await authority.terms(for: requester.user, policy, enrolmentSet: set)
    }

    /// A user's fingers: their names, and a digest of 32 bytes that changes with them. The digest
    /// includes fprintd's files if they can be read, because a finger that was deleted and enrolled
    /// again has the same name.
    func enrolment(
        of user: String?, in found: FingerprintReader.Found
    ) async throws(BusError) -> (fingers: [String], set: Data) {
        guard let user else { return ([], Data(SHA256.hash(data: Data()))) }
        let fingers = try await reader.enrolledFingers(of: user, in: found)
        var hash = SHA256()
        for finger in fingers.sorted() { hash.update(data: Array(finger.utf8) + [0]) }
        hash.update(data: prints.digest(of: user) ?? Data())
        return (fingers, Data(hash.finalize()))
    }

    /// Detects changes of fingers while the service was not running.
    func noteEnrolments() async {
        for user in authority.usersBoundToFingers {
            let requester = BusRequester(client: "", .init(user: user, process: nil))
            do {
                try await authority.note(
                    try await enrolment(of: requester.userName, in: reader.find()).set, of: user)
            } catch {
                log.error("the enrolled fingers were not noted", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// A finger was enrolled; fprintd does not say for which user. Users with readable files are
    /// checked when a key is used. For all others it counts as a change of their fingers.
    func noteEnrolment() async {
        for user in authority.usersBoundToFingers {
            let requester = BusRequester(client: "", .init(user: user, process: nil))
            guard requester.userName.flatMap({ prints.digest(of: $0) }) == nil else { continue }
            do throws(KeystoreError) {
                try await authority.note(
                    SecretBytes.random(count: 32).withUnsafeBytes { Data($0) }, of: user)
            } catch {
                log.error("the enrolled fingers were not noted", metadata: ["reason": "\(error)"])
            }
        }
    }
}
