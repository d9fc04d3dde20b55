internal import TPM2

/// A session that waits for the broker's approval while a person is asked.
enum PreparedSession: Sendable {
    /// Out of the TPM, over no connection: what a device without a resource manager must have.
    case suspended(SuspendedSession)
    /// Behind a resource manager, with the object loaded: two commands are left after the finger.
    case held(HeldUse)

    /// What the approval is bound to.
    var nonceTPM: [UInt8] {
        switch self {
        case .suspended(let session): session.nonceTPM
        case .held(let use): use.nonceTPM
        }
    }
}
