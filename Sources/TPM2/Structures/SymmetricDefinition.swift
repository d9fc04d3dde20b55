/// A symmetric cipher with key size and mode, `TPMT_SYM_DEF` and `TPMT_SYM_DEF_OBJECT` (TPM 2.0 Part 2 sections
/// 11.1.6 and 11.1.7).
public struct SymmetricDefinition: Hashable, Sendable {
    /// The cipher, or null.
    public let algorithm: TPMAlgorithm
    /// In bits. 0 when ``algorithm`` is null.
    public let keyBits: UInt16
    /// Its mode.
    public let mode: TPMAlgorithm

    /// None.
    public static let null = SymmetricDefinition(algorithm: .null, keyBits: 0, mode: .null)
    /// AES with keys of 128 bits, in CFB mode: what sessions and storage keys use here.
    public static let aes128CFB = SymmetricDefinition(algorithm: .aes, keyBits: 128, mode: .cfb)
}

extension SymmetricDefinition: TPMMarshallable, TPMUnmarshallable {
    public init(from reader: inout TPMReader) throws(TPMError) {
        algorithm = try reader.read()
        guard algorithm != .null else {
            keyBits = 0
            mode = .null
            return
        }
        guard algorithm != .xor else { throw .malformed("an object can't have XOR as its cipher") }
        keyBits = try reader.read()
        mode = try reader.read()
    }

    public func marshal(into writer: inout TPMWriter) {
        writer.write(algorithm)
        guard algorithm != .null else { return }
        writer.write(keyBits)
        writer.write(mode)
    }
}
