import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Logging

extension PresenceService {
    /// Whether the caller's finger can be asked for now.
    func state(for requester: Requester) async -> FingerState {
        if let until = limit.lockedUntil(requester.user, at: Date()) { return .lockedOut(until: until) }
        guard let name = requester.userName else { return .notAvailable("the user has no name") }
        do throws(BusError) {
            let found = try await reader.find()
            return try await reader.enrolledFingers(of: name, in: found).isEmpty ? .notEnrolled : .ready
        } catch {
            return .notAvailable(error.isAbsence ? "fprintd is not there" : "there is no fingerprint reader")
        }
    }

    /// What the caller's keys must be bound to under a policy.
    func terms(for requester: Requester, _ arguments: [BusValue]) async throws(KeystoreError) -> PresenceTerms {
        let operation = "state the broker's terms"
        guard let policy = PresenceWire.policy(arguments) else {
            throw .invalidInput(operation, "the policy is none")
        }
        let set = requester.userName.flatMap { prints.digest(of: $0) }
        // Also when it is the last finger that went.
        if let set, authority.isBoundToFingers(requester.user) { try await authority.note(set, of: requester.user) }
        if policy.hasFinger { try await checkFinger(of: requester, operation) }
        return try await authority.terms(for: requester.user, policy, enrolmentSet: set)
    }

    /// Takes notice of fingers that changed while nobody looked.
    func noteEnrolments() async {
        for user in authority.usersBoundToFingers {
            let requester = Requester(client: "", .init(user: user, process: nil))
            guard let set = requester.userName.flatMap({ prints.digest(of: $0) }) else { continue }
            do throws(KeystoreError) {
                try await authority.note(set, of: user)
            } catch {
                log.error("the enrolled fingers were not noted", metadata: ["reason": "\(error)"])
            }
        }
    }

    private func checkFinger(of requester: Requester, _ operation: String) async throws(KeystoreError) {
        guard let name = requester.userName else {
            throw KeystoreError(
                operation: operation, code: .unavailable, reason: "the user \(requester.user) has no name",
                recovery: "Use another account.")
        }
        let fingers: [String]
        do throws(BusError) {
            fingers = try await reader.enrolledFingers(of: name, in: reader.find())
        } catch {
            throw KeystoreError(
                operation: operation, code: .unavailable,
                reason: error.isAbsence ? "fprintd is not there" : "there is no fingerprint reader",
                recovery: "Connect a fingerprint reader and install fprintd, or use the policy ‘pin’.")
        }
        guard !fingers.isEmpty else {
            throw KeystoreError(
                operation: operation, code: .notEnrolled, reason: "you have no finger enrolled",
                recovery: "Enrol one with fprintd-enroll, or use the policy ‘pin’.")
        }
    }
}
