package import Latchkey

/// What a user can ask the service of the sign-in, about its record of the user.
package protocol SignInClient: Sendable {
    /// Reads the state of the user's record and PIN.
    func status() throws(CommonError) -> SignInStatus

    /// Stores the secret, sealed by the TPM and under the login password, in a pending record, and
    /// opens both copies once.
    ///
    /// - Returns: The record's generation.
    func enrol(
        _ kind: KeyringKind, secret: SecretBytes, password: SecretBytes, proof: SignInProof
    ) throws(CommonError) -> UInt64

    /// Completes the copies of the record's secret, which the password or the proof opens. It is sealed
    /// again, under the PIN that the user has now or for a finger alone. If the password did not open
    /// it, a copy under the password is added.
    ///
    /// - Returns: The record's new generation.
    func renew(password: SecretBytes, proof: SignInProof) throws(CommonError) -> UInt64

    /// Records that the keyring has the secret.
    func activate(generation: UInt64) throws(CommonError)

    /// The secret, for the user who knows the login password.
    func release(password: SecretBytes) throws(CommonError) -> SecretBytes

    /// Ends the sign-in and deletes the record.
    func remove(generation: UInt64, password: SecretBytes) throws(CommonError)
}

/// The service's record of a user, without secrets.
package struct SignInStatus: Hashable, Sendable {
    package enum Wrap: String, Sendable { case fresh, stale, absent }

    /// What opens the TPM's copy of the secret: the PIN that the user has now and a finger, or a finger
    /// alone.
    package enum Seal: String, Sendable { case pin = "sealed", finger, absent }

    /// A record of a user.
    package struct Record: Hashable, Sendable {
        package let state: SignInRecord.State
        package let kind: KeyringKind
        package let generation: UInt64
        package let seal: Seal
        package let wrap: Wrap

        package var isSealed: Bool { seal != .absent }
    }

    /// nil if the service has no record of the user.
    package let record: Record?
    /// Whether the user has a PIN in the TPM.
    package let hasPIN: Bool
    /// Whether the present PIN can sign in, or a finger if the record is for a finger alone.
    package let isAllowed: Bool

    package init(record: Record?, hasPIN: Bool, isAllowed: Bool) {
        (self.record, self.hasPIN, self.isAllowed) = (record, hasPIN, isAllowed)
    }

    /// Reads the answer to a request `status`.
    ///
    /// - Returns: nil for other words than those of the protocol.
    init?(words: [String]) {
        guard words.count == 8, words[0] == "status",
            let pin = Self.flag(words[6], "set", "unset"),
            let allowed = Self.flag(words[7], "allowed", "unproven")
        else { return nil }
        (hasPIN, isAllowed) = (pin, allowed)
        if words[1] == "none" {
            guard words[2...5].elementsEqual(["-", "0", "-", "-"]) else { return nil }
            record = nil
            return
        }
        guard let state = SignInRecord.State(rawValue: words[1]),
            let kind = KeyringKind(name: words[2]),
            let generation = UInt64(words[3]), generation > 0,
            let seal = Seal(rawValue: words[4]),
            let wrap = Wrap(rawValue: words[5])
        else { return nil }
        record = Record(
            state: state, kind: kind, generation: generation, seal: seal, wrap: wrap)
    }

    private static func flag(_ word: String, _ yes: String, _ no: String) -> Bool? {
        word == yes ? true : word == no ? false : nil
    }
}
