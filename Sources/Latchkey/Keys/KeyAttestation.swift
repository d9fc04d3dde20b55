public import FoundationEssentials

/// What the hardware says about the birth of a key, signed by the hardware.
///
/// Two formats are there:
///
/// - `tpm`: ``statement`` is a `TPMS_ATTEST` of type `TPM_ST_ATTEST_CREATION` that holds the challenge, signed with
///   ECDSA-SHA256 (TPM 2.0 Part 2 section 10.12.8).
/// - `piv`: ``statement`` is an X.509 certificate in DER, which a YubiKey made for the key (Yubico's PIV attestation). It
///   carries its own signature and knows no challenge: freshness is shown by a signature of the attested key.
public struct KeyAttestation: Hashable, Sendable, Codable {
    /// The format of a TPM.
    public static let tpm = "tpm"
    /// The format of a YubiKey.
    public static let piv = "piv"

    /// How the other fields are to be read: ``tpm`` or ``piv``.
    public let format: String
    /// `tpm`: the bytes that are signed. `piv`: the certificate of the attested key.
    public let statement: Data
    /// `tpm`: `r ‖ s`, 64 bytes, over SHA-256 of ``statement``. `piv`: empty.
    public let signature: Data
    /// The attested key. `tpm`: its public area (`TPMT_PUBLIC`). `piv`: its uncompressed point, 65 bytes.
    public let publicArea: Data
    /// The key that signed. `tpm`: its public area (`TPMT_PUBLIC`). `piv`: its SubjectPublicKeyInfo, DER.
    public let attestationKey: Data
    /// Certificates that lead from the hardware to its maker, DER, the hardware's own first. Empty where the
    /// hardware has none.
    public let certificates: [Data]

    /// A statement as its keystore got it from the hardware. Only keystores call this.
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
