public import FoundationEssentials
public import Latchkey
internal import TPM2

/// Verifies that a key was created in a TPM and cannot leave it.
///
/// Checks that a TPM made the statement (magic) about the creation (type) of this key (Name), that
/// the key is bound to its TPM and only signs (attributes), that the statement answers this
/// challenge (qualifying data), and that its signing key signs only data from its TPM (restricted).
/// CVE-2024-29038, 29039 and 29040 were missing checks of this kind.
///
/// **It proves less than ``AttestationVerifier``**: no certificate is trusted (see
/// ``AttestedKey``), the key's policy is not read, and nothing is known about the user
/// verification. Use it only with attestation keys that were enrolled in another way.
public struct KeyAttestationVerifier: Sendable {
    /// Creates a verifier.
    public init() {}

    /// Verifies an attestation.
    ///
    /// - Parameters:
    ///   - attestation: From `Keystore.attest(_:challenge:)`, of format `tpm`.
    ///   - challenge: The 8 to 32 bytes that the server sent to the device. Use each challenge
    ///     once.
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
        let statement = try CreationStatement(attestation.statement)
        let key = try SigningKey(attestation.publicArea, of: "the key")
        let signer = try SigningKey(attestation.attestationKey, of: "the attestation key")

        guard statement.objectName == key.name else {
            throw AttestationError(.wrongName, "the statement is about another key")
        }
        guard
            key.attributes.isSuperset(of: .bound), key.attributes.contains(.sign),
            key.attributes.isDisjoint(with: [.restricted, .decrypt])
        else {
            throw AttestationError(
                .wrongAttributes, "the key's attributes are \(key.attributes.hexadecimal)")
        }
        guard constantTimeEqual(statement.challenge, challenge) else {
            throw AttestationError(.wrongChallenge, "the statement answers another challenge")
        }
        guard
            signer.attributes.isSuperset(of: .bound),
            signer.attributes.isSuperset(of: [.restricted, .sign]),
            !signer.attributes.contains(.decrypt)
        else {
            throw AttestationError(
                .unrestrictedAttestationKey,
                "the attestation key's attributes are \(signer.attributes.hexadecimal)")
        }
        guard
            let signature = ECDSASignature(rawRepresentation: attestation.signature),
            signer.publicKey.isValid(signature, for: MessageDigest(sha256: attestation.statement))
        else { throw AttestationError(.invalidSignature, "the signature does not verify") }
        return AttestedKey(
            publicKey: key.publicKey, attestationKey: signer.publicKey,
            attestationKeyName: Data(signer.name.bytes),
            certificates: attestation.certificates)
    }
}

/// The content of a `TPMS_ATTEST` about the creation of a key.
private struct CreationStatement {
    /// The qualifying data: the challenge that the device passed to the TPM.
    let challenge: [UInt8]
    /// The Name of the created key.
    let objectName: TPMName

    init(_ bytes: Data) throws(AttestationError) {
        guard try UInt32(structure: bytes.prefix(4), "the statement") == Attest.magic else {
            throw AttestationError(.wrongMagic, "the statement was not made by a TPM")
        }
        let attest = try Attest(structure: bytes, "the statement")
        guard case .creation(let objectName, _) = attest.statement else {
            throw AttestationError(.wrongType, "the statement is not about a creation")
        }
        challenge = attest.extraData
        self.objectName = objectName
    }
}

/// The public area of a P-256 key that signs SHA-256 digests.
private struct SigningKey {
    let attributes: ObjectAttributes
    let publicKey: PublicKey
    let name: TPMName

    init(_ bytes: Data, of what: String) throws(AttestationError) {
        func malformed(_ detail: String) -> AttestationError {
            AttestationError(.malformed, "\(what) \(detail)")
        }

        let area = try PublicArea(structure: bytes, what)
        guard case .ecc(let parameters, let point) = area.detail else {
            throw malformed("is not an elliptic-curve key")
        }
        guard area.nameAlgorithm == .sha256, let name = try? area.name else {
            throw malformed("does not use SHA-256 for its Name")
        }
        guard parameters.symmetric == .null else { throw malformed("has a symmetric algorithm") }
        guard [.null, .ecdsaSHA256].contains(parameters.scheme) else {
            throw malformed("does not use ECDSA with SHA-256")
        }
        guard parameters.curve == .nistP256 else { throw malformed("is not on P-256") }
        guard parameters.kdf == .null else { throw malformed("has a key derivation function") }
        guard
            max(point.x.count, point.y.count) <= 32, let representation = point.p256Representation,
            let publicKey = try? PublicKey(x963Representation: Data(representation))
        else { throw malformed("is not a point on P-256") }
        attributes = area.attributes
        self.publicKey = publicKey
        self.name = name
    }
}

extension TPMUnmarshallable {
    /// Reads a structure that consists of exactly these bytes.
    fileprivate init(structure bytes: Data, _ what: String) throws(AttestationError) {
        do {
            try self.init(unmarshalling: bytes)
        } catch {
            throw AttestationError(.malformed, "\(what) is not a TPM structure: \(error.reason)")
        }
    }
}

extension ObjectAttributes {
    /// Created in this TPM and unable to leave it.
    fileprivate static let bound: ObjectAttributes = [
        .fixedTPM, .fixedParent, .sensitiveDataOrigin,
    ]

    var hexadecimal: String { "0x" + String(rawValue, radix: 16) }
}

/// A key with a verified attestation.
public struct AttestedKey: Hashable, Sendable {
    /// The attested key. It was created in the TPM that has ``attestationKey``, cannot leave it,
    /// and only signs.
    public let publicKey: PublicKey
    /// The key that signed the statement. **Its owner is unknown**: it may belong to a software
    /// TPM. To require real hardware, compare ``attestationKeyName`` with a Name that was enrolled
    /// earlier, with `TPM2_ActivateCredential` and an endorsement key whose certificate chains to a
    /// manufacturer's root.
    public let attestationKey: PublicKey
    /// The Name of the attestation key, 34 bytes. It covers the key and its attributes. Until this
    /// Name is known from an enrolment, only the sender claims that the key is restricted.
    public let attestationKeyName: Data
    /// The certificates in the attestation, DER. They are not verified or trusted.
    public let certificates: [Data]
}

/// The reason why an attestation was refused or cannot be verified.
public typealias AttestationError = VerificationError<AttestationReason>

/// The reasons why an attestation is refused or cannot be verified.
public enum AttestationReason: String, Sendable, CaseIterable {
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
    /// The certificate of the hardware leads to no trust anchor.
    case untrustedEndorsement
    /// The certificate of the hardware is further from its root than 8 certificates.
    case chainTooLong
    /// A certificate of the hardware's chain has an algorithm or a critical extension that is not
    /// supported.
    case unsupportedCertificate
    /// The certificate is not that of an endorsement key.
    case wrongEndorsement
    /// A certificate of the hardware's chain is not valid now.
    case certificateExpired
    /// The client did not return the secret of the activation.
    case activationFailed
    /// The attestation key has no certificate of a trusted issuer that is valid now.
    case untrustedAttestationKey
    /// The statement about the creation of the key does not match.
    case wrongCreation
    /// The attested key is of another kind, or is not the key of the request.
    case wrongKey
    /// The declared branches are not the key's policy, or are not acceptable.
    case wrongPolicy
    /// A key opens the attested key that is not known as a presence broker's.
    case unknownApprovalKey
    /// The certificates of a token do not form a chain.
    case wrongChain
    /// The hardware enforces less user verification than required.
    case insufficientPresence
    /// The key is in a simulator.
    case simulated
}
