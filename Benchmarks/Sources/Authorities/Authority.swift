public import Foundation
internal import SwiftASN1
public import X509

/// A certificate authority of a benchmark.
public struct Authority: Sendable {
    /// The distinguished name of the authority, which consists of common names.
    public let name: DistinguishedName
    public let key: Certificate.PrivateKey
    private let algorithm: Certificate.SignatureAlgorithm

    /// - Parameter names: The number of common names, to make the name long.
    public init(
        _ name: String, names: Int = 1, key: Certificate.PrivateKey,
        _ algorithm: Certificate.SignatureAlgorithm
    ) {
        self.name = DistinguishedName(
            (0..<names).map { number in
                RelativeDistinguishedName(
                    RelativeDistinguishedName.Attribute(
                        type: [2, 5, 4, 3], utf8String: "\(name) \(number)"))
            })
        self.key = key
        self.algorithm = algorithm
    }

    /// Returns a self-signed certificate of the authority, DER.
    ///
    /// - Parameter length: Its approximate size in bytes, or nil for the smallest.
    public func certificate(length: Int? = nil) throws -> Data {
        try certificate(
            key.publicKey, subject: name, length: length,
            Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            })
    }

    /// The kinds of keys in a TPM that authorities certify.
    public enum TPMKey: Sendable {
        case endorsement
        case attestation

        /// tcg-kp-EKCertificate and tcg-kp-AIKCertificate.
        fileprivate var purpose: ASN1ObjectIdentifier {
            self == .endorsement ? [2, 23, 133, 8, 1] : [2, 23, 133, 8, 3]
        }
    }

    /// Returns a certificate for a TPM's key, DER.
    ///
    /// - Parameter length: Its approximate size in bytes, or nil for the smallest.
    public func certificate(
        of key: Certificate.PublicKey, as kind: TPMKey, length: Int? = nil
    ) throws -> Data {
        let attributes: [(ASN1ObjectIdentifier, String)] = [
            ([2, 23, 133, 2, 1], "id:49424D00"), ([2, 23, 133, 2, 2], "benchmark"),
            ([2, 23, 133, 2, 3], "id:20191023"),
        ]
        let tpm = DistinguishedName(
            attributes.map {
                RelativeDistinguishedName(
                    RelativeDistinguishedName.Attribute(type: $0.0, utf8String: $0.1))
            })
        return try certificate(
            key, subject: DistinguishedName(), length: length,
            Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(SubjectAlternativeNames([.directoryName(tpm)]))
                try ExtendedKeyUsage([ExtendedKeyUsage.Usage(oid: kind.purpose)])
            })
    }

    private func certificate(
        _ key: Certificate.PublicKey, subject: DistinguishedName, length: Int?,
        _ extensions: Certificate.Extensions
    ) throws -> Data {
        func make(filler: Int?) throws -> Data {
            var extensions = extensions
            if let filler {
                try extensions.append(
                    Certificate.Extension(
                        oid: [1, 2, 3, 4], critical: false,
                        value: [UInt8](repeating: 0, count: max(filler, 1))[...]))
            }
            let certificate = try Certificate(
                version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: key,
                notValidBefore: Date() - 300, notValidAfter: Date() + 86_400, issuer: name,
                subject: subject,
                signatureAlgorithm: algorithm, extensions: extensions, issuerPrivateKey: self.key)
            var serializer = DER.Serializer()
            try serializer.serialize(certificate)
            return Data(serializer.serializedBytes)
        }
        guard let length else { return try make(filler: nil) }
        // Serial numbers and ECDSA signatures vary by a few bytes.
        return try make(filler: length - 16 - make(filler: 256).count + 256)
    }
}
