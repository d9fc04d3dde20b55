internal import Crypto

/// An algorithm, `TPM_ALG_ID` (TPM 2.0 Part 2 section 6.3; TCG algorithm registry).
package struct TPMAlgorithm: TPMNumber, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let rsa = TPMAlgorithm(rawValue: 0x0001)
    package static let hmac = TPMAlgorithm(rawValue: 0x0005)
    package static let aes = TPMAlgorithm(rawValue: 0x0006)
    package static let keyedHash = TPMAlgorithm(rawValue: 0x0008)
    package static let xor = TPMAlgorithm(rawValue: 0x000a)
    /// `TPM_ALG_SHA256`.
    package static let sha256 = TPMAlgorithm(rawValue: 0x000b)
    package static let sha384 = TPMAlgorithm(rawValue: 0x000c)
    package static let sha512 = TPMAlgorithm(rawValue: 0x000d)
    package static let null = TPMAlgorithm(rawValue: 0x0010)
    package static let rsassa = TPMAlgorithm(rawValue: 0x0014)
    package static let rsaes = TPMAlgorithm(rawValue: 0x0015)
    package static let rsapss = TPMAlgorithm(rawValue: 0x0016)
    package static let ecdsa = TPMAlgorithm(rawValue: 0x0018)
    package static let ecdaa = TPMAlgorithm(rawValue: 0x001a)
    package static let ecc = TPMAlgorithm(rawValue: 0x0023)
    package static let cfb = TPMAlgorithm(rawValue: 0x0043)

    /// Computes a digest with this hash algorithm.
    ///
    /// - Throws: ``TPMError`` of kind `unsupported` unless it is SHA-256, SHA-384 or SHA-512.
    func digest(of bytes: [UInt8]) throws(TPMError) -> [UInt8] {
        switch self {
        case .sha256: return Array(SHA256.hash(data: bytes))
        case .sha384: return Array(SHA384.hash(data: bytes))
        case .sha512: return Array(SHA512.hash(data: bytes))
        default:
            throw .unsupported("the hash algorithm 0x\(String(rawValue, radix: 16)) is not known")
        }
    }

    /// Computes the Name of a public area: `nameAlg ‖ H(marshalled public area)`.
    func name(of publicArea: [UInt8]) throws(TPMError) -> TPMName {
        TPMName(bytes: marshalled + (try digest(of: publicArea)))
    }
}

/// An elliptic curve, `TPM_ECC_CURVE` (TPM 2.0 Part 2 section 6.4).
package struct ECCCurve: TPMNumber, Hashable, Sendable {
    package let rawValue: UInt16

    package init(rawValue: UInt16) { self.rawValue = rawValue }

    /// `TPM_ECC_NIST_P256`.
    package static let nistP256 = ECCCurve(rawValue: 0x0003)
    /// `TPM_ECC_NIST_P384`.
    package static let nistP384 = ECCCurve(rawValue: 0x0004)
}

/// A signing, encryption or key derivation scheme with its hash: `TPMT_ECC_SCHEME`,
/// `TPMT_RSA_SCHEME`, `TPMT_SIG_SCHEME`, `TPMT_KDF_SCHEME`, `TPMT_KEYEDHASH_SCHEME` (TPM 2.0 Part 2
/// section 11.2).
package struct Scheme: Hashable, Sendable {
    /// The algorithm, or null.
    package let algorithm: TPMAlgorithm
    /// The hash. Nil if ``algorithm`` is null or RSAES.
    package let hash: TPMAlgorithm?
    /// The 16-bit counter of ECDAA, or the KDF of XOR.
    package let extra: UInt16?

    /// No scheme, or the scheme of the key.
    package static let null = Scheme(algorithm: .null, hash: nil, extra: nil)
    /// ECDSA with SHA-256.
    package static let ecdsaSHA256 = Scheme(algorithm: .ecdsa, hash: .sha256, extra: nil)
    /// HMAC with SHA-256.
    package static let hmacSHA256 = Scheme(algorithm: .hmac, hash: .sha256, extra: nil)
}

extension Scheme: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        algorithm = try reader.read()
        hash = algorithm == .null || algorithm == .rsaes ? nil : try reader.read(TPMAlgorithm.self)
        extra = algorithm == .ecdaa || algorithm == .xor ? try reader.read(UInt16.self) : nil
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(algorithm)
        if let hash { writer.write(hash) }
        if let extra { writer.write(extra) }
    }
}

/// A symmetric cipher with key size and mode, `TPMT_SYM_DEF` and `TPMT_SYM_DEF_OBJECT` (TPM 2.0
/// Part 2 sections 11.1.6 and 11.1.7).
package struct SymmetricDefinition: Hashable, Sendable {
    /// The cipher, or null.
    package let algorithm: TPMAlgorithm
    /// The key size in bits. 0 if ``algorithm`` is null.
    package let keyBits: UInt16
    /// The mode.
    package let mode: TPMAlgorithm

    /// No cipher.
    package static let null = SymmetricDefinition(algorithm: .null, keyBits: 0, mode: .null)
    /// AES with 128-bit keys in CFB mode, which sessions and storage keys use here.
    package static let aes128CFB = SymmetricDefinition(algorithm: .aes, keyBits: 128, mode: .cfb)
    /// AES with 256-bit keys in CFB mode, which some endorsement keys use.
    package static let aes256CFB = SymmetricDefinition(algorithm: .aes, keyBits: 256, mode: .cfb)
}

extension SymmetricDefinition: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        algorithm = try reader.read()
        guard algorithm != .null else {
            keyBits = 0
            mode = .null
            return
        }
        guard algorithm != .xor else { throw .malformed("an object uses XOR as its cipher") }
        keyBits = try reader.read()
        mode = try reader.read()
    }

    package func marshal(into writer: inout TPMWriter) {
        writer.write(algorithm)
        guard algorithm != .null else { return }
        writer.write(keyBits, mode)
    }
}

/// A signature, `TPMT_SIGNATURE` (TPM 2.0 Part 2 section 11.3.4).
package enum TPMSignature: Hashable, Sendable {
    /// An ECDSA signature: `r` and `s`, big-endian.
    case ecdsa(hash: TPMAlgorithm, r: [UInt8], s: [UInt8])
    /// An RSASSA or RSAPSS signature.
    case rsa(scheme: TPMAlgorithm, hash: TPMAlgorithm, signature: [UInt8])
}

extension TPMSignature: TPMMarshallable, TPMUnmarshallable {
    package init(from reader: inout TPMReader) throws(TPMError) {
        let scheme = try reader.read(TPMAlgorithm.self)
        switch scheme {
        case .ecdsa:
            self = .ecdsa(
                hash: try reader.read(),
                r: try reader.readSized(maximum: ECCPoint.maximumCoordinate),
                s: try reader.readSized(maximum: ECCPoint.maximumCoordinate))
        case .rsassa, .rsapss:
            self = .rsa(
                scheme: scheme, hash: try reader.read(),
                signature: try reader.readSized(maximum: 512))
        default:
            throw .malformed(
                "a signature has the unknown scheme 0x\(String(scheme.rawValue, radix: 16))")
        }
    }

    package func marshal(into writer: inout TPMWriter) {
        switch self {
        case .ecdsa(let hash, let r, let s):
            writer.write(TPMAlgorithm.ecdsa, hash, TPM2B(r), TPM2B(s))
        case .rsa(let scheme, let hash, let signature):
            writer.write(scheme, hash, TPM2B(signature))
        }
    }
}
