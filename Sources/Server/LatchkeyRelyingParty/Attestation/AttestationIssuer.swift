#if Certificates || Testing || Programs
    internal import Crypto
    public import FoundationEssentials
    internal import SwiftASN1
    internal import X509

    /// A certificate authority for attestation keys, with its private key.
    ///
    /// A process that can read the private key can forge attestations. Keep it where the server
    /// keeps its signing keys.
    public struct AttestationIssuer: Sendable {
        /// The authority's certificate, DER: an anchor for the verifier.
        public let certificate: Data
        let issuer: AttestationKeyIssuer

        /// Reads an authority.
        ///
        /// - Parameters:
        ///   - certificate: A CA certificate, DER.
        ///   - privateKey: Its private key on P-256, PEM (RFC 5915 or RFC 5958).
        /// - Throws: ``AttestationAnchorError`` if one cannot be read, or if they do not belong
        ///   together.
        public init(certificate: Data, privateKey: String) throws(AttestationAnchorError) {
            let key: P256.Signing.PrivateKey
            do {
                key = try P256.Signing.PrivateKey(pemRepresentation: privateKey)
            } catch {
                throw AttestationAnchorError(
                    path: "issuer", reason: "its private key is not a P-256 key in PEM")
            }
            issuer = try AttestationKeyIssuer(certificate: certificate, key: key)
            self.certificate = certificate
        }

        /// Creates an authority with a new key.
        ///
        /// - Parameters:
        ///   - name: The subject's commonName. Verifiers match by name and key.
        ///   - time: The time of creation. The certificate is valid for 20 years.
        /// - Returns: The arguments of ``init(certificate:privateKey:)``.
        /// - Throws: If the certificate cannot be created.
        package static func generate(name: String, at time: Date) throws -> (
            certificate: Data, privateKey: String
        ) {
            let key = P256.Signing.PrivateKey()
            let name = DistinguishedName([
                RelativeDistinguishedName(
                    RelativeDistinguishedName.Attribute(type: [2, 5, 4, 3], utf8String: name))
            ])
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(),
                publicKey: Certificate.PublicKey(key.publicKey),
                notValidBefore: time.addingTimeInterval(-300),
                notValidAfter: time.addingTimeInterval(20 * 365 * 86_400), issuer: name,
                subject: name,
                signatureAlgorithm: .ecdsaWithSHA256,
                extensions: Certificate.Extensions {
                    Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                    Critical(KeyUsage(keyCertSign: true))
                }, issuerPrivateKey: Certificate.PrivateKey(key))
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return (Data(serializer.serializedBytes), key.pemRepresentation)
        }
    }
#endif
