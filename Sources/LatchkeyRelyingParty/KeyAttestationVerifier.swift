public import FoundationEssentials
public import Latchkey

/// Verifies that a key was created in a TPM and cannot leave it.
///
/// Checks that a TPM made the statement (magic) about the creation (type) of this key (Name), that the key is bound to
/// its TPM and only signs (attributes), that the statement answers this challenge (qualifying data), and that its
/// signing key signs only data from its TPM (restricted). CVE-2024-29038, 29039 and 29040 were missing checks of this
/// kind.
///
/// The result depends on trust in the attestation key. No certificate is trusted: see ``AttestedKey``.
public struct KeyAttestationVerifier: Sendable {
    /// Creates a verifier.
    public init() {}

    /// Verifies an attestation.
    ///
    /// - Parameters:
    ///   - attestation: From `Keystore.attest(_:challenge:)`, of format `tpm`.
    ///   - challenge: The 8 to 32 bytes that the server sent to the device. Use each challenge once.
    /// - Throws: ``AttestationError``.
    public func verify(
        _ attestation: KeyAttestation, challenge: some Collection<UInt8>
    ) throws(AttestationError) -> AttestedKey {
        guard attestation.format == "tpm" else {
            throw AttestationError(.unsupportedFormat, "the format is \(attestation.format)")
        }
        guard (8...32).contains(challenge.count) else {
            throw AttestationError(.wrongChallenge, "the challenge does not have 8 to 32 bytes")
        }
        let statement = try TPMCreationStatement(attestation.statement)
        let key = try TPMPublicArea(attestation.publicArea, of: "the key")
        let signer = try TPMPublicArea(attestation.attestationKey, of: "the attestation key")

        guard statement.name == key.name else {
            throw AttestationError(.wrongName, "the statement is about another key")
        }
        guard
            key.attributes.isSuperset(of: .bound), key.attributes.contains(.sign),
            key.attributes.isDisjoint(with: [.restricted, .decrypt])
        else {
            throw AttestationError(.wrongAttributes, "the key's attributes are \(key.attributes)")
        }
        guard constantTimeEqual(statement.challenge, challenge) else {
            throw AttestationError(.wrongChallenge, "the statement answers another challenge")
        }
        guard
            signer.attributes.isSuperset(of: .bound), signer.attributes.isSuperset(of: [.restricted, .sign]),
            !signer.attributes.contains(.decrypt)
        else {
            throw AttestationError(
                .unrestrictedAttestationKey, "the attestation key's attributes are \(signer.attributes)")
        }
        guard
            let signature = ECDSASignature(rawRepresentation: attestation.signature),
            signer.publicKey.isValid(signature, for: MessageDigest(sha256: attestation.statement))
        else { throw AttestationError(.invalidSignature, "the signature does not verify") }
        return AttestedKey(
            publicKey: key.publicKey, attestationKey: signer.publicKey, attestationKeyName: signer.name,
            certificates: attestation.certificates)
    }
}

/// A key with a verified attestation.
public struct AttestedKey: Hashable, Sendable {
    /// The attested key. It was created in the TPM that has ``attestationKey``, cannot leave it, and only signs.
    public let publicKey: PublicKey
    /// The key that signed the statement. **Its owner is unknown**: it may belong to a software TPM. To require real
    /// hardware, compare ``attestationKeyName`` with a Name that was enrolled earlier, with `TPM2_ActivateCredential`
    /// and an endorsement key whose certificate chains to a manufacturer's root.
    public let attestationKey: PublicKey
    /// The Name of the attestation key, 34 bytes. It covers the key and its attributes. Until this Name is known from
    /// an enrolment, only the sender claims that the key is restricted.
    public let attestationKeyName: Data
    /// The certificates in the attestation, DER. They are not verified or trusted.
    public let certificates: [Data]
}

/// The reason why an attestation was refused.
public typealias AttestationError = VerificationError<AttestationReason>

/// The reasons why an attestation is refused.
public enum AttestationReason: String, Sendable {
    /// The format is not `tpm`.
    case unsupportedFormat
    /// The bytes are not valid TPM structures of the expected kind.
    case malformed
    /// The statement was not made inside a TPM: its first four bytes are not `TPM_GENERATED_VALUE`.
    case wrongMagic
    /// The statement is not about the creation of a key.
    case wrongType
    /// The statement is about another key.
    case wrongName
    /// The key can leave its TPM, was not created in it, or does more than sign.
    case wrongAttributes
    /// The statement answers another challenge.
    case wrongChallenge
    /// The key that signed the statement can sign arbitrary data.
    case unrestrictedAttestationKey
    /// The signature does not verify.
    case invalidSignature
}
