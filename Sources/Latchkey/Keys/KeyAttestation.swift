public import FoundationEssentials

/// What the hardware says about the birth of a key, signed by the hardware.
public struct KeyAttestation: Hashable, Sendable, Codable {
    /// How ``statement`` and ``signature`` are to be read: `tpm` is a `TPMS_ATTEST` of type
    /// `TPM_ST_ATTEST_CREATION` signed with ECDSA-SHA256 (TPM 2.0 Part 2 section 10.12.8).
    public let format: String
    /// The bytes that are signed.
    public let statement: Data
    /// `r ‖ s`, 64 bytes, over SHA-256 of ``statement``.
    public let signature: Data
    /// The public area of the attested key (`TPMT_PUBLIC`).
    public let publicArea: Data
    /// The public area of the key that signed (`TPMT_PUBLIC`).
    public let attestationKey: Data
    /// Certificates that lead from the hardware to its maker, DER, the hardware's own first. Empty where the
    /// hardware has none.
    public let certificates: [Data]

    public init(
        format: String, statement: Data, signature: Data, publicArea: Data, attestationKey: Data, certificates: [Data]
    ) {
        self.format = format
        self.statement = statement
        self.signature = signature
        self.publicArea = publicArea
        self.attestationKey = attestationKey
        self.certificates = certificates
    }
}
