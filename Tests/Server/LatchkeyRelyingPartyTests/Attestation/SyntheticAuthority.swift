import Crypto
import CryptoExtras
import Foundation
import SwiftASN1
import X509

@testable import LatchkeyRelyingParty

/// A certificate authority of a test, with a key of any kind that manufacturers use.
struct SyntheticAuthority {
    /// A kind of key, and the hash with which it signs.
    enum Kind: Hashable, CaseIterable {
        case p256, p384, p521, rsa2048, rsa4096
    }

    /// The only keys that are not new for each authority: they take seconds.
    private static let rsa2048 = Result { try rsaKey(bits: 2048) }
    private static let rsa4096 = Result { try rsaKey(bits: 4096) }

    /// A debug build of swift-crypto takes minutes for a key; openssl does not.
    private static func rsaKey(bits: Int) throws -> _RSA.Signing.PrivateKey {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt",
            "rsa_keygen_bits:\(bits)",
        ]
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let pem = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return try _RSA.Signing.PrivateKey(pemRepresentation: String(decoding: pem, as: UTF8.self))
    }

    let subject: DistinguishedName
    let key: Certificate.PrivateKey
    let kind: Kind

    init(_ name: String, _ kind: Kind = .p256) throws {
        subject = AttestationRig.distinguishedName(name)
        self.kind = kind
        key =
            switch kind {
            case .p256: Certificate.PrivateKey(P256.Signing.PrivateKey())
            case .p384: Certificate.PrivateKey(P384.Signing.PrivateKey())
            case .p521: Certificate.PrivateKey(P521.Signing.PrivateKey())
            case .rsa2048: Certificate.PrivateKey(try Self.rsa2048.get())
            case .rsa4096: Certificate.PrivateKey(try Self.rsa4096.get())
            }
    }

    static let isAuthority = [
        try? Certificate.Extension(
            BasicConstraints.isCertificateAuthority(maxPathLength: nil), critical: true),
        try? Certificate.Extension(KeyUsage(keyCertSign: true), critical: true),
    ].compactMap(\.self)

    /// A certificate of this authority's key, by an issuer or by itself.
    func certificate(
        by issuer: SyntheticAuthority? = nil,
        extensions: [Certificate.Extension] = SyntheticAuthority.isAuthority,
        with algorithm: Certificate.SignatureAlgorithm? = nil,
        days: ClosedRange<Double> = -1...90
    ) throws -> HardwareCertificate {
        let issuer = issuer ?? self
        return try Self.certificate(
            of: key.publicKey, subject: subject, by: issuer, extensions: extensions,
            with: algorithm, days: days)
    }

    /// An endorsement certificate by this authority.
    ///
    /// - Parameter name: Its subjectAltName, DER; nil for one that is usual.
    func endorsement(
        of key: Certificate.PublicKey = Certificate.PublicKey(P256.Signing.PrivateKey().publicKey),
        more: [Certificate.Extension] = [], days: ClosedRange<Double> = -1...90,
        name: [UInt8]? = nil
    ) throws -> HardwareCertificate {
        var extensions = Array(
            try AttestationRig.attestationKeyExtensions(purpose: [2, 23, 133, 8, 1], more: more))
        if let name, let index = extensions.firstIndex(where: { $0.oid == [2, 5, 29, 17] }) {
            extensions[index].value = name[...]
        }
        return try Self.certificate(
            of: key, subject: DistinguishedName(), by: self, extensions: extensions, with: nil,
            days: days)
    }

    private static func certificate(
        of key: Certificate.PublicKey, subject: DistinguishedName, by issuer: SyntheticAuthority,
        extensions: [Certificate.Extension], with algorithm: Certificate.SignatureAlgorithm?,
        days: ClosedRange<Double>
    ) throws -> HardwareCertificate {
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: key,
            notValidBefore: AttestationRig.time + days.lowerBound * 86_400,
            notValidAfter: AttestationRig.time + days.upperBound * 86_400,
            issuer: issuer.subject, subject: subject,
            signatureAlgorithm: algorithm ?? issuer.kind.algorithm,
            extensions: try Certificate.Extensions(extensions), issuerPrivateKey: issuer.key)
        var serializer = DER.Serializer()
        try certificate.serialize(into: &serializer)
        return try HardwareCertificate(Data(serializer.serializedBytes))
    }
}

extension SyntheticAuthority.Kind {
    /// The kind of key in a certificate.
    init?(_ certificate: HardwareCertificate) {
        switch CertificateKey(publicKeyInfo: certificate.publicKeyInfo) {
        case .p256?: self = .p256
        case .p384?: self = .p384
        case .p521?: self = .p521
        case .rsa(let modulus, _)?, .rsaPSS(let modulus, _)?:
            self = modulus.count > 256 ? .rsa4096 : .rsa2048
        case nil: return nil
        }
    }

    var algorithm: Certificate.SignatureAlgorithm {
        switch self {
        case .p256: .ecdsaWithSHA256
        case .p384: .ecdsaWithSHA384
        case .p521: .ecdsaWithSHA512
        case .rsa2048, .rsa4096: .sha256WithRSAEncryption
        }
    }
}
