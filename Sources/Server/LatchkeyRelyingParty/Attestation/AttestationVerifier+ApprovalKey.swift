internal import Crypto
package import FoundationEssentials
package import Latchkey
internal import TPM2

extension AttestationVerifier {
    /// A presence broker's approval key, and the attestation key that showed that it is in the same
    /// TPM.
    package struct ApprovalKey: Sendable {
        /// The Name of the approval key, 34 bytes.
        package let name: Data
        /// The attestation key, as in its certificate.
        package let attestationKey: PublicKey
    }

    /// Verifies that an approval key is in a TPM and cannot leave it. **The statement does not show
    /// that the key is a presence broker's**: the caller authenticates the administrator who claims
    /// this.
    ///
    /// - Parameters:
    ///   - statement: A TPM's statement about the approval key.
    ///   - challenge: The qualifying data of the statement: the bytes of a token with the purpose
    ///     ``ChallengePurpose/approvalKeyRequest``, which the caller has consumed.
    ///   - acceptsSimulated: Whether the TPM may be a simulator.
    /// - Throws: ``AttestationError``.
    package func verifyApprovalKey(
        _ statement: AttestationStatement, challenge: Data, acceptsSimulated: Bool
    ) async throws -> ApprovalKey {
        guard case .tpm(let content) = statement.content else {
            throw AttestationError(.unsupportedFormat, "an approval key is in a TPM")
        }
        let area: P256Area
        do {
            area = try P256Area(content.publicArea)
        } catch {
            throw AttestationError(.wrongKey, "the key is not acceptable: \(error)")
        }
        guard area.opensWithAuthValueOnly else {
            throw AttestationError(
                .wrongPolicy,
                "a policy could permit approvals with this key without the presence broker")
        }
        let requirement = AttestationRequirement(.hardware, acceptsSimulated: acceptsSimulated)
        _ = try await verify(
            statement, of: .es256(area.publicKey),
            for: AttestationExpectation(
                challenge: challenge, binding: .qualifyingData, requirement: requirement))
        let signer = try AttestationKeyCertificate(
            content.certificates, anchors: anchors, time: now)
        return ApprovalKey(name: Data(area.name.bytes), attestationKey: signer.publicKey)
    }
}

extension AttestationStatement {
    /// The key that the statement is about, before any verification. Compare it with the key of the
    /// request.
    package var claimedKey: PublicKey? {
        switch content {
        case .tpm(let content): try? P256Area(content.publicArea).publicKey
        case .piv(let certificates):
            certificates.first.flatMap { try? HardwareCertificate($0) }.flatMap { leaf in
                guard case .p256(let key) = CertificateKey(publicKeyInfo: leaf.publicKeyInfo) else {
                    return nil
                }
                return try? PublicKey(x963Representation: key.x963Representation)
            }
        }
    }
}

/// The parts of an endorsement certificate that a person can compare. Nothing is verified.
package struct EndorsementSummary: Sendable {
    /// `id:` and 8 hexadecimal digits (TCG registry of TPM vendors), or nil if the certificate does
    /// not name it.
    package let manufacturer: String?
    package let model: String?
    package let version: String?
    package let validFrom: Date
    package let expiresAt: Date

    /// - Returns: nil for bytes that are not a certificate.
    package init?(_ certificate: Data) {
        guard let parsed = try? HardwareCertificate(HardwareCertificate.withoutPadding(certificate))
        else { return nil }
        let attributes = try? TPMAttributes(parsed)
        (manufacturer, model, version) = (
            attributes?.manufacturer, attributes?.model, attributes?.version
        )
        validFrom = Date(timeIntervalSince1970: Double(parsed.validity.lowerBound))
        expiresAt = Date(timeIntervalSince1970: Double(parsed.validity.upperBound))
    }
}
