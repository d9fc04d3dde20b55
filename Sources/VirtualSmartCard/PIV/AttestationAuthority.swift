internal import Crypto
public import FoundationEssentials
internal import SwiftASN1
internal import X509

/// Who vouches for virtual cards, in the place of Yubico: a root certificate, and the attestation key that its cards
/// share.
public struct AttestationAuthority: Sendable {
    /// The root's certificate, in DER.
    public let rootCertificate: [UInt8]
    /// The certificate that comes with slot F9, issued by the root, in DER.
    public let deviceCertificate: [UInt8]
    /// The private key in slot F9.
    let deviceKey: P256.Signing.PrivateKey

    /// Makes an authority with new keys, whose certificates hold for ten years.
    ///
    /// - Throws: When a certificate can't be made.
    public init(now: Date = Date()) throws {
        let rootKey = P256.Signing.PrivateKey()
        deviceKey = P256.Signing.PrivateKey()
        let rootName = try DistinguishedName { CommonName("Virtual PIV Root CA") }
        let deviceName = try DistinguishedName { CommonName("Virtual PIV Attestation") }
        rootCertificate = try Self.certificate(
            of: rootKey, named: rootName, issuer: rootName, issuerKey: rootKey, maximumPathLength: 1, now: now)
        deviceCertificate = try Self.certificate(
            of: deviceKey, named: deviceName, issuer: rootName, issuerKey: rootKey, maximumPathLength: 0, now: now)
    }

    /// The root's certificate in PEM.
    public var rootCertificatePEM: String {
        PEMDocument(type: "CERTIFICATE", derBytes: rootCertificate).pemString + "\n"
    }

    private static func certificate(
        of key: P256.Signing.PrivateKey, named name: DistinguishedName, issuer: DistinguishedName,
        issuerKey: P256.Signing.PrivateKey, maximumPathLength: Int, now: Date
    ) throws -> [UInt8] {
        try Certificate(
            version: .v3,
            serialNumber: Certificate.SerialNumber(),
            publicKey: Certificate.PublicKey(key.publicKey),
            notValidBefore: now.addingTimeInterval(-60),
            notValidAfter: now.addingTimeInterval(10 * 365 * 86_400),
            issuer: issuer,
            subject: name,
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: maximumPathLength))
            },
            issuerPrivateKey: Certificate.PrivateKey(issuerKey)
        ).derBytes
    }
}
