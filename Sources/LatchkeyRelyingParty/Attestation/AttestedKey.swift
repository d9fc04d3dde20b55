public import FoundationEssentials
public import Latchkey

/// What an attestation proved.
public struct AttestedKey: Hashable, Sendable {
    /// The key that is attested: born in the TPM that has ``attestationKey``, unable to leave it, and good for signing
    /// only.
    public let publicKey: PublicKey
    /// The key that signed. **Who has it is not known**: it may be a software TPM's. Whoever needs to know that it is
    /// real hardware compares this key with one that was enrolled earlier (by `TPM2_ActivateCredential` against an
    /// endorsement key whose certificate leads to a maker's root).
    public let attestationKey: PublicKey
    /// The certificates that came along, DER, reported as they are: no chain was built, nothing about them is trusted.
    public let certificates: [Data]
}
