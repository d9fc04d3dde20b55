/// An algorithm's number, `TPM_ALG_ID` (TPM 2.0 Part 2 section 6.3; the TCG algorithm registry).
public struct TPMAlgorithm: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    /// `TPM_ALG_RSA`.
    public static let rsa = TPMAlgorithm(rawValue: 0x0001)
    /// `TPM_ALG_SHA1`.
    public static let sha1 = TPMAlgorithm(rawValue: 0x0004)
    /// `TPM_ALG_HMAC`.
    public static let hmac = TPMAlgorithm(rawValue: 0x0005)
    /// `TPM_ALG_AES`.
    public static let aes = TPMAlgorithm(rawValue: 0x0006)
    /// `TPM_ALG_KEYEDHASH`.
    public static let keyedHash = TPMAlgorithm(rawValue: 0x0008)
    /// `TPM_ALG_XOR`.
    public static let xor = TPMAlgorithm(rawValue: 0x000a)
    /// `TPM_ALG_SHA256`.
    public static let sha256 = TPMAlgorithm(rawValue: 0x000b)
    /// `TPM_ALG_SHA384`.
    public static let sha384 = TPMAlgorithm(rawValue: 0x000c)
    /// `TPM_ALG_SHA512`.
    public static let sha512 = TPMAlgorithm(rawValue: 0x000d)
    /// `TPM_ALG_NULL`.
    public static let null = TPMAlgorithm(rawValue: 0x0010)
    /// `TPM_ALG_RSASSA`.
    public static let rsassa = TPMAlgorithm(rawValue: 0x0014)
    /// `TPM_ALG_RSAES`.
    public static let rsaes = TPMAlgorithm(rawValue: 0x0015)
    /// `TPM_ALG_RSAPSS`.
    public static let rsapss = TPMAlgorithm(rawValue: 0x0016)
    /// `TPM_ALG_OAEP`.
    public static let oaep = TPMAlgorithm(rawValue: 0x0017)
    /// `TPM_ALG_ECDSA`.
    public static let ecdsa = TPMAlgorithm(rawValue: 0x0018)
    /// `TPM_ALG_ECDH`.
    public static let ecdh = TPMAlgorithm(rawValue: 0x0019)
    /// `TPM_ALG_ECDAA`.
    public static let ecdaa = TPMAlgorithm(rawValue: 0x001a)
    /// `TPM_ALG_SM2`.
    public static let sm2 = TPMAlgorithm(rawValue: 0x001b)
    /// `TPM_ALG_ECSCHNORR`.
    public static let ecSchnorr = TPMAlgorithm(rawValue: 0x001c)
    /// `TPM_ALG_ECC`.
    public static let ecc = TPMAlgorithm(rawValue: 0x0023)
    /// `TPM_ALG_CFB`.
    public static let cfb = TPMAlgorithm(rawValue: 0x0043)
}

extension TPMAlgorithm: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) { rawValue = try reader.read() }
    public func marshal(into writer: inout TPMWriter) { writer.write(rawValue) }
}
