internal import TPM2

/// A proof that serves for some seconds, by the TPM's own clock. It crosses the bus in the clear, so a key that takes it
/// demands ``PresenceProtection/authValue`` too.
struct ProofTicket: Sendable {
    let ticket: ApprovalTicket
    /// The Name of who gave it: the broker's key, or the index of a user's PIN.
    let authority: TPMName
    let reference: [UInt8]
    let isFinger: Bool
}
