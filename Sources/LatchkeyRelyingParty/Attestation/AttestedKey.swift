public import FoundationEssentials
public import Latchkey

/// What an attestation proved.
public struct AttestedKey: Hashable, Sendable {
    /// The key that is attested: born in the TPM that has ``attestationKey``, unable to leave it, and good for signing
    /// only.
    public let publicKey: PublicKey
    /// The key that signed. **Who has it is not known**: it may be a software TPM's. Whoever needs to know that it is
    /// real hardware compares ``attestationKeyName`` with one that was enrolled earlier (by `TPM2_ActivateCredential`
    /// against an endorsement key whose certificate leads to a maker's root).
    public let attestationKey: PublicKey
    /// The Name of the key that signed, 34 bytes: it covers the key and its attributes. That the key is restricted is
    /// what the sender says of it, until this Name is known from an enrolment.
    public let attestationKeyName: Data
    /// The certificates that came along, DER, reported as they are: no chain was built, nothing about them is trusted.
    public let certificates: [Data]
}
