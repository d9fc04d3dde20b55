/// An algorithm's number, `TPM_ALG_ID` (TPM 2.0 Part 2 section 6.3; the TCG algorithm registry).
public struct TPMAlgorithm: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt16

    public init(rawValue: UInt16) { self.rawValue = rawValue }

    public static let rsa = TPMAlgorithm(rawValue: 0x0001)
    public static let sha1 = TPMAlgorithm(rawValue: 0x0004)
    public static let hmac = TPMAlgorithm(rawValue: 0x0005)
    public static let aes = TPMAlgorithm(rawValue: 0x0006)
    public static let keyedHash = TPMAlgorithm(rawValue: 0x0008)
    public static let xor = TPMAlgorithm(rawValue: 0x000a)
    public static let sha256 = TPMAlgorithm(rawValue: 0x000b)
    public static let sha384 = TPMAlgorithm(rawValue: 0x000c)
    public static let sha512 = TPMAlgorithm(rawValue: 0x000d)
    public static let null = TPMAlgorithm(rawValue: 0x0010)
    public static let rsassa = TPMAlgorithm(rawValue: 0x0014)
    public static let rsaes = TPMAlgorithm(rawValue: 0x0015)
    public static let rsapss = TPMAlgorithm(rawValue: 0x0016)
    public static let oaep = TPMAlgorithm(rawValue: 0x0017)
    public static let ecdsa = TPMAlgorithm(rawValue: 0x0018)
    public static let ecdh = TPMAlgorithm(rawValue: 0x0019)
    public static let ecdaa = TPMAlgorithm(rawValue: 0x001a)
    public static let sm2 = TPMAlgorithm(rawValue: 0x001b)
    public static let ecSchnorr = TPMAlgorithm(rawValue: 0x001c)
    public static let ecc = TPMAlgorithm(rawValue: 0x0023)
    public static let cfb = TPMAlgorithm(rawValue: 0x0043)
}

extension TPMAlgorithm: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) { rawValue = try reader.read() }
    public func marshal(into writer: inout TPMWriter) { writer.write(rawValue) }
}
