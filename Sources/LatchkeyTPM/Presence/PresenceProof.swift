internal import Latchkey
internal import TPM2

/// What is shown to the TPM so that it uses an object once.
enum PresenceProof: Sendable {
    /// The object's own authValue; empty where it asks for nothing.
    case authValue(AuthValue)
    /// The same, for a session and an object that were loaded while the person was asked.
    case primed(HeldUse, AuthValue)
    /// The user's own PIN.
    case userPIN(AuthValue)
    /// The broker's approval for a session that waited meanwhile.
    case approval(PreparedSession, PresenceApproval)
    /// An earlier proof, within its time.
    case ticket(ProofTicket)
}
