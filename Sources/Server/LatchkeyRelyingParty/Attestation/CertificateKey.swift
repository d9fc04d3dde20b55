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
    /// The same, only for RSASSA-PSS.
    case rsaPSS(modulus: Data, exponent: Data)

    private typealias Signature = (scheme: Scheme, hash: Hash)

    private enum Scheme {
        case ecdsa, pkcs1, pss
    }

    /// A hash function, with its size in bytes.
    private enum Hash: Int {
        case sha256 = 32
        case sha384 = 48
        case sha512 = 64
    }

    private enum Identifier {
        static let ecPublicKey: ASN1ObjectIdentifier = [1, 2, 840, 10045, 2, 1]
        static let p256: ASN1ObjectIdentifier = [1, 2, 840, 10045, 3, 1, 7]
        static let p384: ASN1ObjectIdentifier = [1, 3, 132, 0, 34]
        static let p521: ASN1ObjectIdentifier = [1, 3, 132, 0, 35]
        static let rsaEncryption: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 1]
        /// Older endorsement certificates name the encryption scheme (TCG EK Credential Profile
        /// 2.0).
        static let rsaOAEP: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 7]
        /// A key only for RSASSA-PSS, and the signature algorithm (RFC 4055 sections 1.2 and 3).
        static let rsaPSS: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 10]
        static let mgf1: ASN1ObjectIdentifier = [1, 2, 840, 113549, 1, 1, 8]

        static let hashes: [ASN1ObjectIdentifier: Hash] = [
            [2, 16, 840, 1, 101, 3, 4, 2, 1]: .sha256, [2, 16, 840, 1, 101, 3, 4, 2, 2]: .sha384,
            [2, 16, 840, 1, 101, 3, 4, 2, 3]: .sha512,
        ]
        static let signatures: [ASN1ObjectIdentifier: Signature] = [
            [1, 2, 840, 113549, 1, 1, 11]: (.pkcs1, .sha256),
            [1, 2, 840, 113549, 1, 1, 12]: (.pkcs1, .sha384),
            [1, 2, 840, 113549, 1, 1, 13]: (.pkcs1, .sha512),
            [1, 2, 840, 10045, 4, 3, 2]: (.ecdsa, .sha256),
            [1, 2, 840, 10045, 4, 3, 3]: (.ecdsa, .sha384),
            [1, 2, 840, 10045, 4, 3, 4]: (.ecdsa, .sha512),
        ]
        /// Names for messages.
        static let unsupported: [ASN1ObjectIdentifier: String] = [
            [1, 2, 840, 113549, 1, 1, 4]: "MD5 with RSA",
            [1, 2, 840, 113549, 1, 1, 5]: "SHA-1 with RSA",
            rsaPSS: "RSASSA-PSS with a hash, mask or salt that is unusual",
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
            let kind = try ASN1ObjectIdentifier(derEncoded: algorithm[0])
            switch kind {
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
            case Identifier.rsaEncryption, Identifier.rsaOAEP, Identifier.rsaPSS:
                let numbers = try HardwareCertificate.children(
                    try DER.parse(bits.bytes), .sequence, 2...2)
                let modulus = try Self.number(numbers[0])
                let exponent = try Self.number(numbers[1])
                guard let modulus, let exponent, (256...512).contains(modulus.count),
                    (1...4).contains(exponent.count),
                    exponent.last.map({ $0 & 1 }) == 1, exponent != Data([1])
                else { return nil }
                self =
                    kind == Identifier.rsaPSS
                    ? .rsaPSS(modulus: modulus, exponent: exponent)
                    : .rsa(modulus: modulus, exponent: exponent)
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
        guard signature(of: certificate) == nil else { return nil }
        let algorithm = certificate.signatureAlgorithm
        return Identifier.unsupported[algorithm] ?? "the algorithm \(algorithm)"
    }

    /// The algorithm of a certificate's signature; nil if it is not supported.
    private static func signature(of certificate: HardwareCertificate) -> Signature? {
        guard certificate.signatureAlgorithm == Identifier.rsaPSS else {
            return Identifier.signatures[certificate.signatureAlgorithm]
        }
        return (try? pssHash(certificate.signatureParameters)).flatMap { $0.map { (.pss, $0) } }
    }

    /// Reads RSASSA-PSS-params (RFC 4055 section 3.1).
    ///
    /// - Returns: The hash, if it is that of the mask too and the salt has its size.
    private static func pssHash(_ parameters: ArraySlice<UInt8>) throws -> Hash? {
        func children(_ node: ASN1Node, _ identifier: ASN1Identifier, _ count: Int) throws
            -> [ASN1Node]
        {
            try HardwareCertificate.children(node, identifier, count...count)
        }
        func field(_ number: UInt, _ node: ASN1Node) throws -> ASN1Node {
            try children(node, HardwareCertificate.tag(number), 1)[0]
        }
        func hash(_ node: ASN1Node) throws -> Hash? {
            let parts = try HardwareCertificate.children(node, .sequence, 1...2)
            return Identifier.hashes[try ASN1ObjectIdentifier(derEncoded: parts[0])]
        }
        let fields = try HardwareCertificate.children(
            try DER.parse(parameters), .sequence, 3...4)
        let mask = try children(try field(1, fields[1]), .sequence, 2)
        let salt = try Int(derEncoded: try field(2, fields[2]))
        let trailer = try fields.dropFirst(3).first.map { try Int(derEncoded: try field(3, $0)) }
        guard let found = try hash(try field(0, fields[0])), try hash(mask[1]) == found,
            try ASN1ObjectIdentifier(derEncoded: mask[0]) == Identifier.mgf1,
            salt == found.rawValue, trailer ?? 1 == 1
        else { return nil }
        return found
    }

    /// Whether the key signed this certificate. The algorithms are those that
    /// ``unsupportedSignature(of:)`` permits.
    func isIssuer(of certificate: HardwareCertificate) -> Bool {
        guard let (scheme, hash) = Self.signature(of: certificate) else { return false }
        let (message, signature) = (certificate.signedBytes, certificate.signature)
        return switch hash {
        case .sha256: isValid(signature, scheme, SHA256.hash(data: message))
        case .sha384: isValid(signature, scheme, SHA384.hash(data: message))
        case .sha512: isValid(signature, scheme, SHA512.hash(data: message))
        }
    }

    private func isValid(
        _ signature: ArraySlice<UInt8>, _ scheme: Scheme, _ digest: some Digest
    ) -> Bool {
        switch (self, scheme) {
        case (.p256(let key), .ecdsa):
            return (try? P256.Signing.ECDSASignature(derRepresentation: signature)).map {
                key.isValidSignature($0, for: digest)
            } ?? false
        case (.p384(let key), .ecdsa):
            return (try? P384.Signing.ECDSASignature(derRepresentation: signature)).map {
                key.isValidSignature($0, for: digest)
            } ?? false
        case (.p521(let key), .ecdsa):
            return (try? P521.Signing.ECDSASignature(derRepresentation: signature)).map {
                key.isValidSignature($0, for: digest)
            } ?? false
        case (.rsa(let modulus, let exponent), .pkcs1), (.rsa(let modulus, let exponent), .pss),
            (.rsaPSS(let modulus, let exponent), .pss):
            guard signature.count == modulus.count,
                let key = try? _RSA.Signing.PublicKey(n: modulus, e: exponent)
            else { return false }
            return key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: signature), for: digest,
                padding: scheme == .pss ? .PSS : .insecurePKCS1v1_5)
        default: return false
        }
    }
}
