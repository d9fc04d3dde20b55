internal import Crypto
internal import FoundationEssentials
internal import SwiftASN1
internal import TPM2

/// A verified certificate of a TPM's endorsement key (TCG EK Credential Profile).
struct EndorsementCertificate: Sendable {
    /// The maximum number of certificates in a request.
    static let maximumCount = 8
    /// tcg-kp-EKCertificate.
    static let purpose: ASN1ObjectIdentifier = [2, 23, 133, 8, 1]

    /// The position of the certificate in the request.
    let index: Int
    /// The endorsement key: P-256, P-384, or RSA with 2048 bits.
    let key: CertificateKey
    /// SHA-256 of the endorsement key's SubjectPublicKeyInfo.
    let keyDigest: Data
    /// The TPM, as its manufacturer describes it.
    let attributes: TPMAttributes
    /// Whether the root is a simulator's.
    let isSimulated: Bool

    /// Finds the first certificate of an endorsement key that leads to an anchor. The other
    /// certificates can complete its path.
    ///
    /// - Parameters:
    ///   - certificates: At most 8 certificates of at most 4096 bytes, DER, with or without
    ///     padding; at most 8192 bytes without.
    ///   - time: Seconds since 1970.
    /// - Throws: ``AttestationError`` with code `malformed`, `wrongEndorsement`,
    ///   `untrustedEndorsement`, `chainTooLong`, `unsupportedCertificate` or `certificateExpired`:
    ///   that of the first certificate of an endorsement key. Its detail names the cause for each.
    init(_ certificates: [Data], anchors: AttestationAnchors, time: Int64) throws(AttestationError)
    {
        guard certificates.count <= Self.maximumCount,
            certificates.allSatisfy({ $0.count <= HardwareCertificate.maximumBytes })
        else {
            throw AttestationError(
                .malformed, "there are more than 8 certificates, or one has more than 4096 bytes")
        }
        let certificates = certificates.map(HardwareCertificate.withoutPadding)
        guard certificates.reduce(0, { $0 + $1.count }) <= HardwareCertificate.maximumChainBytes
        else {
            throw AttestationError(
                .malformed, "the certificates have more than 8192 bytes together")
        }
        let parsed = certificates.map { der in
            Result { () throws(HardwareCertificate.Malformed) in try HardwareCertificate(der) }
        }
        let others = parsed.compactMap { try? $0.get() }
        var signaturesLeft = CertificatePath.maximumSignatures
        var failures: [AttestationError] = []
        var unusable: [String] = []
        for (index, result) in parsed.enumerated() {
            let (certificate, attributes): (HardwareCertificate, TPMAttributes)
            do throws(HardwareCertificate.Malformed) {
                certificate = try result.get()
                attributes = try Self.attributes(of: certificate)
            } catch {
                unusable.append("certificate \(index + 1): \(error)")
                continue
            }
            do throws(AttestationError) {
                let path = try Self.path(
                    from: certificate, to: anchors, others: others, at: time, &signaturesLeft)
                let key = try Self.key(of: certificate)
                self.index = index
                self.key = key
                keyDigest = Data(SHA256.hash(data: certificate.publicKeyInfo))
                self.attributes = attributes
                isSimulated = path.isSimulated
                return
            } catch {
                failures.append(error)
            }
        }
        guard let first = failures.first else {
            throw AttestationError(
                .wrongEndorsement,
                certificates.isEmpty
                    ? "there is no certificate"
                    : "no certificate is that of an endorsement key: "
                        + unusable.joined(separator: "; "))
        }
        throw AttestationError(first.code, failures.map(\.detail).joined(separator: "; "))
    }

    private static func path(
        from certificate: HardwareCertificate, to anchors: AttestationAnchors,
        others: [HardwareCertificate], at time: Int64, _ signaturesLeft: inout Int
    ) throws(AttestationError) -> CertificatePath {
        do throws(CertificatePath.Failure) {
            return try CertificatePath(
                from: certificate, to: anchors.tpm, simulated: anchors.simulated,
                others: others.filter { $0 != certificate }, at: time,
                signaturesLeft: &signaturesLeft)
        } catch {
            throw AttestationError(error.reason, error.detail)
        }
    }

    /// The key, if a challenge can be protected for it.
    private static func key(of certificate: HardwareCertificate) throws(AttestationError)
        -> CertificateKey
    {
        switch CertificateKey(publicKeyInfo: certificate.publicKeyInfo) {
        case .some(.p256(let key)): return .p256(key)
        case .some(.p384(let key)): return .p384(key)
        case .some(.rsa(let modulus, let exponent)) where modulus.count == 256:
            return .rsa(modulus: modulus, exponent: exponent)
        case .p521, .rsa, .rsaPSS, nil:
            throw AttestationError(
                .wrongEndorsement,
                "the endorsement key is neither on P-256 or P-384 nor RSA with 2048 bits")
        }
    }

    /// The TPM's attributes.
    ///
    /// - Throws: The reason why the certificate is not an endorsement key's.
    private static func attributes(
        of certificate: HardwareCertificate
    ) throws(HardwareCertificate.Malformed) -> TPMAttributes {
        guard try certificate.basicConstraints()?.isAuthority != true else {
            throw HardwareCertificate.Malformed(description: "it is a CA certificate")
        }
        guard try certificate.purposes()?.contains(purpose) != false else {
            throw HardwareCertificate.Malformed(
                description: "its extKeyUsage lacks tcg-kp-EKCertificate")
        }
        return try TPMAttributes(certificate)
    }
}

extension P256Area {
    /// Reads the public area of a new attestation key.
    ///
    /// It has no policy. A policy could authorize `TPM2_ActivateCredential` without a proof, and only
    /// the TPM's refusal of a key without its private part would prevent the activation.
    ///
    /// - Throws: ``AttestationError`` with code `unrestrictedAttestationKey`.
    init(attestationKey bytes: Data) throws(AttestationError) {
        do {
            try self.init(bytes)
        } catch {
            throw AttestationError(
                .unrestrictedAttestationKey, "the attestation key is not acceptable: \(error)")
        }
        guard
            attributes.isSuperset(of: [
                .fixedTPM, .fixedParent, .sensitiveDataOrigin, .restricted, .sign,
            ]),
            attributes.isSubset(of: [
                .fixedTPM, .fixedParent, .sensitiveDataOrigin, .restricted, .sign, .userWithAuth,
                .noDA,
            ]), opensWithAuthValueOnly, scheme == .ecdsaSHA256
        else {
            throw AttestationError(
                .unrestrictedAttestationKey,
                "the attestation key has a policy, or its attributes are \(attributes.hexadecimal)"
            )
        }
    }
}
