internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import Latchkey

/// The public half of an RSA key with 2048 bits and the exponent 65537.
struct RSAPublicKey: Hashable, Sendable {
    /// The length of the modulus.
    static let bits = 2048
    /// How many bytes a modulus and a signature have.
    static let byteCount = bits / 8
    /// `CKA_PUBLIC_EXPONENT`, big-endian.
    static let exponent: [UInt8] = [0x01, 0x00, 0x01]

    /// Big-endian, 256 bytes.
    let modulus: Data

    /// - Parameters: as a token has them, big-endian; zeros before them don't count.
    /// - Throws: `malformed` for any other length and exponent, and for what is no modulus.
    init(modulus: [UInt8], exponent: [UInt8]) throws(CryptokiError) {
        let modulus = Data(modulus.drop { $0 == 0 })
        guard exponent.drop(while: { $0 == 0 }).elementsEqual(Self.exponent), modulus.count == Self.byteCount,
            modulus[modulus.startIndex] >= 0x80, modulus[modulus.endIndex - 1] & 1 == 1
        else {
            throw .malformed("C_GetAttributeValue", "an RSA key has not \(Self.bits) bits and the exponent 65537")
        }
        self.modulus = modulus
    }

    /// SHA-256 of the modulus, 32 bytes.
    var fingerprint: Data { Data(SHA256.hash(data: modulus)) }

    /// Whether `signature`, 256 bytes, is the key's of `message`: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 section 8.2).
    func isValid(_ signature: UnsafeRawBufferPointer, for message: Data) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: Self.exponent) else { return false }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: Data(signature)), for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}
