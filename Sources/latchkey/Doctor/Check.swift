import Latchkey

/// One thing that the doctor looked at.
struct Check: Encodable, Sendable {
    enum State: String, Encodable, Sendable {
        case ok
        /// Something is missing that only some commands need.
        case warning
        /// No key can be made.
        case problem
    }

    /// One word that does not change: `store`, `tpm`, `tpm-device`, `srk`, `lockout`, `revocation`, `user-pin`, `tokens`,
    /// `finger`, `pin-source`, `server`; with a token `module`, `token`, `token-pin`, `token-limits`, `readers` in place of
    /// the TPM's.
    let name: String
    let state: State
    /// What was found, one sentence.
    let finding: String
    /// What to do, one sentence; nothing where all is well.
    let advice: String?
    /// What a process ends with that fails for this.
    private(set) var status = ExitStatus.done

    private enum CodingKeys: String, CodingKey {
        case name, state, finding, advice
    }

    static func ok(_ name: String, _ finding: String) -> Check {
        Check(name: name, state: .ok, finding: finding, advice: nil)
    }

    static func warning(_ name: String, _ finding: String, _ advice: String) -> Check {
        Check(name: name, state: .warning, finding: finding, advice: advice)
    }

    static func problem(_ name: String, _ error: KeystoreError) -> Check {
        problem(name, "\(error)", error.recovery, error.code)
    }

    static func problem(_ name: String, _ finding: String, _ advice: String, _ code: KeystoreError.Code) -> Check {
        Check(name: name, state: .problem, finding: finding, advice: advice, status: ExitStatus(code))
    }
}
