/// The service that looks at fingers, as a program lends it to its keystore: `latchkey-presenced`, on a machine that has one.
///
/// A program makes one and passes it on, in ``PresenceAuthority/broker``; what travels between keystore and service is theirs,
/// and the hardware checks it.
public struct PresenceBroker: Sendable {
    package let approvals: any ApprovalService

    package init(_ approvals: any ApprovalService) { self.approvals = approvals }

    /// Whether the calling user's finger can be asked for now. Shows nothing.
    public func fingerState() async -> FingerState { await approvals.fingerState() }
}
