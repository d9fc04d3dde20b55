public import FoundationEssentials

/// A statement by the hardware about a key that it created, signed by the hardware.
///
/// There are two formats:
///
/// - `tpm`: `statement` is a `TPMS_ATTEST` that contains the challenge, signed with ECDSA-SHA256
///   (TPM 2.0 Part 2 section 10.12). Its type is `TPM_ST_ATTEST_CREATION` in the forms
///   ``AttestationRequest/Form/creation`` and ``AttestationRequest/Form/enrolment(rpID:origin:)``,
///   and `TPM_ST_ATTEST_CERTIFY` in all others.
/// - `piv`: `statement` is an X.509 certificate in DER, which a YubiKey created for the key
///   (Yubico's PIV attestation). It carries its own signature and contains no challenge: a
///   signature of the attested key proves freshness.
public struct KeyAttestation: Hashable, Sendable, Codable {
    /// The format of a TPM.
    package static let tpm = "tpm"
    /// The format of a YubiKey.
    package static let piv = "piv"

    /// The format of the other fields: `tpm` or `piv`.
    public let format: String
    /// `tpm`: the signed bytes. `piv`: the certificate of the attested key.
    package let statement: Data
    /// `tpm`: `r ‖ s`, 64 bytes, over SHA-256 of `statement`. `piv`: empty.
    package let signature: Data
    /// The attested key. `tpm`: its public area (`TPMT_PUBLIC`). `piv`: its uncompressed point, 65
    /// bytes.
    package let publicArea: Data
    /// The key that signed. `tpm`: its public area (`TPMT_PUBLIC`). `piv`: its
    /// SubjectPublicKeyInfo, DER.
    package let attestationKey: Data
    /// The certificate chain of the key that signed, DER, its own certificate first. `tpm`: from
    /// the issuer for which the attestation key was activated; empty before the activation. `piv`:
    /// from the card.
    package let certificates: [Data]
    /// The declared branches of the key's policy. `piv`: nil.
    public var presence: PresenceStatement?
    /// `tpm`: the CBOR attestation object, with the format `tpm` of WebAuthn Level 3 section 8.3.
    /// nil without a certificate.
    package var object: Data?
    /// `tpm`: the JSON of the client data, in the forms
    /// ``AttestationRequest/Form/enrolment(rpID:origin:)`` and
    /// ``AttestationRequest/Form/webAuthn(rpID:origin:)``.
    package var clientData: Data?

    package init(
        format: String, statement: Data, signature: Data, publicArea: Data, attestationKey: Data,
        certificates: [Data],
        presence: PresenceStatement? = nil, object: Data? = nil, clientData: Data? = nil
    ) {
        self.format = format
        self.statement = statement
        self.signature = signature
        self.publicArea = publicArea
        self.attestationKey = attestationKey
        self.certificates = certificates
        self.presence = presence
        self.object = object
        self.clientData = clientData
    }
}

extension KeyAttestation {
    /// The JSON for a server: the member `attestation` of a set-up or enrolment request. nil if the
    /// attestation key has no certificate, because a server trusts nothing else.
    ///
    /// `tpm`: `{"format", "object", "client_data", "presence"}`. `piv`: `{"format",
    /// "certificates"}`. Bytes are in base64url.
    public var json: Data? {
        var wire = Wire(format: format)
        switch format {
        case Self.tpm:
            guard let object else { return nil }
            wire.object = Base64URL.encode(object)
            wire.client_data = clientData.map { Base64URL.encode($0) }
            wire.presence = presence
        case Self.piv: wire.certificates = ([statement] + certificates).map { Base64URL.encode($0) }
        default: return nil
        }
        return try? CanonicalJSON.encode(wire)
    }

    private struct Wire: Encodable {
        let format: String
        var object: String?
        var client_data: String?
        var presence: PresenceStatement?
        var certificates: [String]?
    }
}
