internal import FoundationEssentials
public import Latchkey

/// Verifies that a key was born in a TPM and can't leave it.
///
/// These are the checks whose lack made CVE-2024-29038, 29039 and 29040: the statement comes from inside a TPM (magic),
/// is about a creation (type), about this key (Name), which is bound and signs only (attributes), answers this challenge
/// (qualifying data), and is signed by a key that signs nothing but what its TPM says (restricted).
///
/// What is proved is relative to the attestation key. By default no certificate is trusted: see ``AttestedKey``.
public struct KeyAttestationVerifier: Sendable {
    /// A verifier. It keeps nothing.
    public init() {}

    /// - Parameters:
    ///   - attestation: From `Keystore.attest(_:challenge:)`, of format `tpm`.
    ///   - challenge: The 8 to 32 bytes that the device was given. Give each out once.
    /// - Throws: ``AttestationError``.
    public func verify(
        _ attestation: KeyAttestation, challenge: some Collection<UInt8>
    ) throws(AttestationError) -> AttestedKey {
        guard attestation.format == "tpm" else {
            throw AttestationError(.unsupportedFormat, "the format is \(attestation.format)")
        }
        guard (8...32).contains(challenge.count) else {
            throw AttestationError(.wrongChallenge, "the challenge has not 8 to 32 bytes")
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
            throw AttestationError(.wrongAttributes, "the key's attributes are \(hex(key.attributes))")
        }
        guard constantTimeEqual(statement.challenge, challenge) else {
            throw AttestationError(.wrongChallenge, "the statement answers another challenge")
        }
        guard
            signer.attributes.isSuperset(of: .bound), signer.attributes.isSuperset(of: [.restricted, .sign]),
            !signer.attributes.contains(.decrypt)
        else {
            throw AttestationError(
                .unrestrictedAttestationKey, "the attestation key's attributes are \(hex(signer.attributes))")
        }
        guard
            let signature = ECDSASignature(rawRepresentation: attestation.signature),
            signer.publicKey.isValid(signature, for: MessageDigest(sha256: attestation.statement))
        else { throw AttestationError(.invalidSignature, "the signature does not verify") }
        return AttestedKey(
            publicKey: key.publicKey, attestationKey: signer.publicKey, attestationKeyName: signer.name,
            certificates: attestation.certificates)
    }

    private func hex(_ attributes: TPMPublicArea.Attributes) -> String {
        "0x" + String(attributes.rawValue, radix: 16)
    }
}
