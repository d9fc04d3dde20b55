internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import SwiftASN1

/// The public key of a certificate: the kinds of endorsement keys and of their issuers.
enum CertificateKey: Sendable {
    case p256(P256.Signing.PublicKey)
    case p384(P384.Signing.PublicKey)
    case p521(P521.Signing.PublicKey)
    /// A key of 2048 to 4096 bits. Both numbers are big-endian without leading zeros; the exponent
    /// has at most 4 bytes.
    case rsa(modulus: Data, exponent: Data)

    private enum Identifier {
        static let ecPublicKey: ASN1ObjectIdentifier = [1, 2, 840, 10045, 2, 1]
        static let p256: ASN1ObjectIdentifier = [1, 2, 840, 10045, 3, 1, 7]
        static let p384: ASN1ObjectIdentifier = [1, 3, 132, 0, 34]
        static let p521: ASN1ObjectIdentifier = [1, 3, 132, 0, 35]
        static let rsaEncryption: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 1]
        /// Older endorsement certificates name the encryption scheme (TCG EK Credential Profile
        /// 2.0).
        static let rsaOAEP: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 7]
        static let rsaSHA256: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 11]
        static let rsaSHA384: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 12]
        static let rsaSHA512: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 13]
        static let ecdsaSHA256: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 2]
        static let ecdsaSHA384: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 3]
        static let ecdsaSHA512: ASN1ObjectIdentifier = [1, 2, 840, 10045, 4, 3, 4]

        static let signatures = [
            rsaSHA256, rsaSHA384, rsaSHA512, ecdsaSHA256, ecdsaSHA384, ecdsaSHA512,
        ]
        /// Names for messages.
        static let unsupported: [ASN1ObjectIdentifier: String] = [
            [1, 2, 840, 113549, 1, 1, 4]: "MD5 with RSA",
            [1, 2, 840, 113549, 1, 1, 5]: "SHA-1 with RSA",
            [1, 2, 840, 113549, 1, 1, 10]: "RSASSA-PSS",
            [1, 2, 840, 10045, 4, 1]: "SHA-1 with ECDSA",
            [1, 3, 101, 112]: "Ed25519",
        ]
    }

    /// Reads a SubjectPublicKeyInfo (RFC 5280 section 4.1.2.7).
    ///
    /// - Returns: nil unless it is a point on P-256, P-384 or P-521, or an RSA key of 2048 to 4096
    ///   bits.
    init?(publicKeyInfo bytes: ArraySlice<UInt8>) {
        do {
            let parts = try HardwareCertificate.children(try DER.parse(bytes), .sequence, 2...2)
            let algorithm = try HardwareCertificate.children(parts[0], .sequence, 1...2)
            let bits = try ASN1BitString(derEncoded: parts[1])
            guard bits.paddingBits == 0 else { return nil }
            switch try ASN1ObjectIdentifier(derEncoded: algorithm[0]) {
            case Identifier.ecPublicKey:
                guard algorithm.count == 2 else { return nil }
                switch try ASN1ObjectIdentifier(derEncoded: algorithm[1]) {
                case Identifier.p256:
                    self = .p256(try P256.Signing.PublicKey(x963Representation: bits.bytes))
                case Identifier.p384:
                    self = .p384(try P384.Signing.PublicKey(x963Representation: bits.bytes))
                case Identifier.p521:
                    self = .p521(try P521.Signing.PublicKey(x963Representation: bits.bytes))
                default: return nil
                }
            case Identifier.rsaEncryption, Identifier.rsaOAEP:
                let numbers = try HardwareCertificate.children(
                    try DER.parse(bits.bytes), .sequence, 2...2)
                let modulus = try Self.number(numbers[0])
                let exponent = try Self.number(numbers[1])
                guard let modulus, let exponent, (256...512).contains(modulus.count),
                    (1...4).contains(exponent.count),
                    exponent.last.map({ $0 & 1 }) == 1, exponent != Data([1])
                else { return nil }
                self = .rsa(modulus: modulus, exponent: exponent)
            default: return nil
            }
        } catch {
            return nil
        }
    }

    /// A positive INTEGER without leading zeros, or nil.
    private static func number(_ node: ASN1Node) throws -> Data? {
        let bytes = try HardwareCertificate.content(node, .integer)
        guard let first = bytes.first, first & 0x80 == 0 else { return nil }
        return Data(bytes.drop { $0 == 0 })
    }

    /// The cost of one signature check, in checks with P-384 or less.
    var cost: Int { if case .p521 = self { 2 } else { 1 } }

    /// The name of a certificate's signature algorithm if it is not supported, for example `SHA-1
    /// with RSA`; nil if it is.
    static func unsupportedSignature(of certificate: HardwareCertificate) -> String? {
        let algorithm = certificate.signatureAlgorithm
        guard !Identifier.signatures.contains(algorithm) else { return nil }
        return Identifier.unsupported[algorithm] ?? "the algorithm \(algorithm)"
    }

    /// Whether the key signed this certificate. The algorithms are those that
    /// ``unsupportedSignature(of:)`` permits.
    func isIssuer(of certificate: HardwareCertificate) -> Bool {
        let message = certificate.signedBytes
        switch certificate.signatureAlgorithm {
        case Identifier.ecdsaSHA256, Identifier.rsaSHA256:
            return isValid(certificate, digest: SHA256.hash(data: message))
        case Identifier.ecdsaSHA384, Identifier.rsaSHA384:
            return isValid(certificate, digest: SHA384.hash(data: message))
        case Identifier.ecdsaSHA512, Identifier.rsaSHA512:
            return isValid(certificate, digest: SHA512.hash(data: message))
        default: return false
        }
    }

    private func isValid(_ certificate: HardwareCertificate, digest: some Digest) -> Bool {
        let algorithms = [Identifier.ecdsaSHA256, Identifier.ecdsaSHA384, Identifier.ecdsaSHA512]
        let isECDSA = algorithms.contains(certificate.signatureAlgorithm)
        switch self {
        case .p256(let key):
            guard isECDSA,
                let signature = try? P256.Signing.ECDSASignature(
                    derRepresentation: certificate.signature)
            else { return false }
            return key.isValidSignature(signature, for: digest)
        case .p384(let key):
            guard isECDSA,
                let signature = try? P384.Signing.ECDSASignature(
                    derRepresentation: certificate.signature)
            else { return false }
            return key.isValidSignature(signature, for: digest)
        case .p521(let key):
            guard isECDSA,
                let signature = try? P521.Signing.ECDSASignature(
                    derRepresentation: certificate.signature)
            else { return false }
            return key.isValidSignature(signature, for: digest)
        case .rsa(let modulus, let exponent):
            guard !isECDSA, certificate.signature.count == modulus.count,
                let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent)
            else { return false }
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: certificate.signature), for: digest,
                padding: .insecurePKCS1v1_5)
        }
    }
}
