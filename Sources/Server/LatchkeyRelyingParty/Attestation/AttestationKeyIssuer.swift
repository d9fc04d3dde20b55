#if Certificates || Testing || Programs
    internal import Crypto
    internal import FoundationEssentials
    internal import Latchkey
    internal import SwiftASN1
    internal import X509

    /// Issues certificates for attestation keys (WebAuthn Level 3 section 8.3.1).
    struct AttestationKeyIssuer: Sendable {
        /// The issuer's certificate, DER.
        let certificate: Data
        private let name: DistinguishedName
        private let key: P256.Signing.PrivateKey

        /// - Throws: If the certificate cannot be read, is not a CA's, or has another key.
        init(certificate: Data, key: P256.Signing.PrivateKey) throws(AttestationAnchorError) {
            let parsed = try AttestationAnchorError.certificate(
                certificate, path: "issuer", isRoot: true)
            guard parsed.publicKeyInfo.elementsEqual(key.publicKey.derRepresentation) else {
                throw AttestationAnchorError(
                    path: "issuer", reason: "the certificate is not that of the private key")
            }
            do {
                name = try Certificate(derEncoded: Array(certificate)).subject
            } catch {
                throw AttestationAnchorError(
                    path: "issuer", reason: "the certificate cannot be read: \(error)")
            }
            self.certificate = certificate
            self.key = key
        }

        /// Issues a certificate.
        ///
        /// The subject is empty, and subjectAltName is critical. extKeyUsage is not critical and
        /// contains one purpose: verifiers of other projects check the first one only.
        ///
        /// - Parameter days: The number of days in which it is valid.
        /// - Returns: The certificate, DER.
        func issue(for attestationKey: PublicKey, in tpm: TPMAttributes, at time: Date, days: Int)
            throws -> Data
        {
            let attributes: [(ASN1ObjectIdentifier, String)] = [
                ([2, 23, 133, 2, 1], tpm.manufacturer), ([2, 23, 133, 2, 2], tpm.model),
                ([2, 23, 133, 2, 3], tpm.version),
            ]
            let directoryName = DistinguishedName(
                attributes.map {
                    RelativeDistinguishedName(
                        RelativeDistinguishedName.Attribute(type: $0.0, utf8String: $0.1))
                })
            let issued = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(),
                publicKey: Certificate.PublicKey(attestationKey.cryptoKey),
                notValidBefore: time.addingTimeInterval(-300),
                notValidAfter: time.addingTimeInterval(86_400 * Double(days)),
                issuer: name, subject: DistinguishedName(), signatureAlgorithm: .ecdsaWithSHA256,
                extensions: Certificate.Extensions {
                    Critical(BasicConstraints.notCertificateAuthority)
                    Critical(SubjectAlternativeNames([.directoryName(directoryName)]))
                    try ExtendedKeyUsage([
                        ExtendedKeyUsage.Usage(oid: AttestationKeyCertificate.purpose)
                    ])
                }, issuerPrivateKey: Certificate.PrivateKey(key))
            var serializer = DER.Serializer()
            try serializer.serialize(issued)
            return Data(serializer.serializedBytes)
        }
    }
#endif
