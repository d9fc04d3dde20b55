/// What a server learns before this machine proves to it that a key is in hardware.
public struct AttestationDisclosure: Hashable, Sendable {
    /// The server's address.
    public let server: String
    /// The text for the user, in sentences.
    public let text: String

    /// A TPM's activation. Later proofs for the same server reveal less.
    static func tpm(_ server: String) -> AttestationDisclosure {
        AttestationDisclosure(
            server: server,
            text:
                "\(server) requires a proof that new keys are in hardware. It gets the TPM's endorsement certificate, which "
                + "identifies this machine permanently and names its manufacturer, and for each key the way to unlock it. A "
                + "key that a finger opens also shows your user id and the key of this machine's presence broker."
        )
    }

    /// A token's attestation.
    static func token(_ server: String) -> AttestationDisclosure {
        AttestationDisclosure(
            server: server,
            text:
                "\(server) requires a proof that new keys are in hardware. It gets the token's certificates with its model "
                + "and serial number, which identify the token permanently.")
    }
}
