internal import TPM2

/// A proof that serves for some seconds, by the TPM's own clock. Whoever has it needs no person: it stays in memory.
struct ProofTicket: Sendable {
    let ticket: ApprovalTicket
    /// The Name of who gave it: the broker's key, or the index of a user's PIN.
    let authority: TPMName
    let reference: [UInt8]
    let isFinger: Bool
}
