/// What a keystore asks of the service that looks at fingers: to approve a use of a key, and what its keys are to be bound to.
///
/// It approves, and does nothing else: it has no part of a key, sees no PIN, and what it signs serves one use of one
/// key of the user who called it. The hardware checks that; nobody here is believed.
package protocol ApprovalService: Sendable {
    /// Whether the calling user's finger can be asked for now. Shows nothing.
    func fingerState() async -> FingerState

    /// What the calling user's keys must be bound to under a policy.
    ///
    /// - Throws: ``KeystoreError``: `unavailable` without a service or reader, `notEnrolled` without a finger, where the
    ///   policy has one, `unsupported` where this machine can't have the policy, `transient` when the service did not
    ///   answer.
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms

    /// Has the person touch the reader, within the service's own deadline, and approves one use of one key.
    ///
    /// Honours task cancellation by answering ``ApprovalAnswer/declined(_:)``.
    ///
    /// - Throws: ``KeystoreError``: `unavailable`, `notEnrolled`, `lockedOut` after too many other fingers.
    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer

    /// Makes room in the hardware for the calling user's own PIN, which isn't set yet.
    ///
    /// - Throws: ``KeystoreError``: `conflict` when the user has set one, `unsupported` where the hardware can't.
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN

    /// Whether this machine is known to have no such service. False in every case of doubt: a new key gets a weaker
    /// protection only when this returns true, so a failed or refused query must not return true.
    func isAbsent() async -> Bool
}

extension ApprovalService {
    /// A service in this process is present.
    package func isAbsent() async -> Bool { false }
}
