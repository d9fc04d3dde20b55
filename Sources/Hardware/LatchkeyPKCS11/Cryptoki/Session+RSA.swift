internal import CPKCS11
internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import Latchkey

extension Session {
    /// The public half of the RSA key with a `CKA_ID`; nil if the token has none. Needs no login.
    ///
    /// - Throws: `malformed`, also for a key of another type; `keyAmbiguous`.
    func rsaPublicKey(id: Data) throws(CryptokiError) -> RSAPublicKey? {
        guard let half = try keyHalf(.publicKey, id: id) else { return nil }
        let most = RSAPublicKey.byteCount * 2
        return try RSAPublicKey(
            modulus: attribute(CKA_MODULUS, of: half, most: most) ?? [],
            exponent: attribute(CKA_PUBLIC_EXPONENT, of: half, most: most) ?? [])
    }

    /// The RSA key with a `CKA_ID`.
    ///
    /// - Throws: `keyAbsent`, `keyAmbiguous`, `malformed`.
    func rsaKey(id: Data) throws(CryptokiError) -> RSATokenKey {
        guard let handle = try keyHalf(.privateKey, id: id),
            let publicKey = try rsaPublicKey(id: id)
        else {
            throw CryptokiError(
                .keyAbsent, reason: "the token shows no RSA key with the CKA_ID \(id.hexadecimal)")
        }
        return RSATokenKey(
            publicKey: publicKey, attributes: try attributes(of: handle), handle: handle)
    }

    /// Signs `statement` (`CKM_SHA256_RSA_PKCS`) and verifies the signature: 256 bytes, the same
    /// each time.
    ///
    /// - Throws: `malformed` if the signature is not valid, `unsupported`, `loginNeeded`,
    ///   `returned`.
    func signature(of statement: Data, with key: RSATokenKey) throws(CryptokiError) -> SecretBytes {
        try SecretBytes(count: RSAPublicKey.byteCount) { buffer throws(CryptokiError) in
            let count = try sign(Array(statement), .sha256RSA, key.handle, nil, into: buffer)
            guard count == buffer.count,
                key.publicKey.isValid(UnsafeRawBufferPointer(buffer), for: statement)
            else {
                throw .malformed("C_Sign", "the signature is not the RSA key's")
            }
        }
    }
}

/// An RSA key pair on a token. The handle is valid only in the session that returned it.
struct RSATokenKey: PrivateHalf, Sendable {
    let publicKey: RSAPublicKey
    let attributes: TokenKey.Attributes
    let handle: ObjectHandle

    var secrets: [UInt] { [CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2] }
}

/// The public half of an RSA key with 2048 bits and the exponent 65537.
struct RSAPublicKey: Hashable, Sendable {
    /// The length of the modulus.
    static let bits = 2048
    /// The length of a modulus and of a signature in bytes.
    static let byteCount = bits / 8
    /// `CKA_PUBLIC_EXPONENT`, big-endian.
    static let exponent: [UInt8] = [0x01, 0x00, 0x01]

    /// Big-endian, 256 bytes.
    let modulus: Data

    /// Checks the numbers of a token, big-endian; leading zeros are ignored.
    ///
    /// - Throws: `malformed` for another length or exponent, or an impossible modulus.
    init(modulus: [UInt8], exponent: [UInt8]) throws(CryptokiError) {
        let modulus = Data(modulus.drop { $0 == 0 })
        guard exponent.drop(while: { $0 == 0 }).elementsEqual(Self.exponent),
            modulus.count == Self.byteCount,
            modulus[modulus.startIndex] >= 0x80, modulus[modulus.endIndex - 1] & 1 == 1
        else {
            throw .malformed(
                "C_GetAttributeValue",
                "an RSA key does not have \(Self.bits) bits and the exponent 65537")
        }
        self.modulus = modulus
    }

    /// SHA-256 of the modulus, 32 bytes.
    var fingerprint: Data { Data(SHA256.hash(data: modulus)) }

    /// Whether `signature`, 256 bytes, is valid for `message`: RSASSA-PKCS1-v1_5 with SHA-256 (RFC
    /// 8017 section 8.2).
    func isValid(_ signature: UnsafeRawBufferPointer, for message: Data) -> Bool {
        guard let key = try? _RSA.Signing.PublicKey(n: modulus, e: Self.exponent) else {
            return false
        }
        return key.isValidSignature(
            _RSA.Signing.RSASignature(rawRepresentation: Data(signature)),
            for: SHA256.hash(data: message),
            padding: .insecurePKCS1v1_5)
    }
}
