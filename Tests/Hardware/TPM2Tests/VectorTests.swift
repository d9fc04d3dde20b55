import Crypto
import TPM2
import Testing

/// Values computed by an independent program: Python's `hmac`, `hashlib` and `cryptography`, from
/// the formulas of TPM 2.0 Part 1.
struct VectorTests {
    @Test func `KDFa`() {
        let key = SymmetricKey(data: Array(UInt8(0)..<32))
        let u = [UInt8](repeating: 0xaa, count: 32)
        let v = [UInt8](repeating: 0xbb, count: 32)
        #expect(
            hex(KeyDerivation.kdfa(key: key, label: "ATH", contextU: u, contextV: v))
                == "bb9b7f11a0bf57417f1322938de626ef68b0c8ec03dada9edc924d577c909845")
    }

    @Test func `KDFe over P-256`() throws {
        let first = try P256.KeyAgreement.PrivateKey(rawRepresentation: scalar(0x11))
        let second = try P256.KeyAgreement.PrivateKey(rawRepresentation: scalar(0x22))
        let shared = try first.sharedSecretFromKeyAgreement(with: second.publicKey)
        let salt = KeyDerivation.kdfe(
            sharedSecret: shared, label: "SECRET",
            partyU: Array(first.publicKey.rawRepresentation.prefix(32)),
            partyV: Array(second.publicKey.rawRepresentation.prefix(32)))
        #expect(hex(salt) == "bec03090721978863815c020bde4630813ee5c2f1e3c6302c3066fb0a78c15fd")
    }

    @Test func `a public area has the expected bytes and Name`() throws {
        var area = TestTPM.storageTemplate
        area.detail = .ecc(
            ECCParameters(symmetric: .aes128CFB),
            ECCPoint(x: [UInt8](repeating: 1, count: 32), y: [UInt8](repeating: 2, count: 32)))
        #expect(
            hex(area.marshalled) == "0023000b00030472000000060080004300100003001000"
                + "20" + String(repeating: "01", count: 32) + "0020"
                + String(repeating: "02", count: 32))
        #expect(
            hex(try area.name.bytes)
                == "000b5c39b0efb3db434c3e03e80b9112c880db09cc5313ec3a92435670b862ebfec6")
        #expect(try PublicArea(unmarshalling: area.marshalled) == area)
    }

    @Test func `the cpHash of Sign is that of tpm2_sign --cphash`() {
        let key = TPMName(bytes: [0, 0x0b] + [UInt8](repeating: 7, count: 32))
        #expect(
            hex(Sign(TestTPM.digest, with: NamedHandle(named: key), scheme: .ecdsaSHA256).hash)
                == "aa625320e546465354453252a6c08cc9a0e07644603f972508eba40f6d16c7c8")
        #expect(
            hex(Sign(TestTPM.digest, with: NamedHandle(named: key)).hash)
                == "b71416eeb96438440ca1e55cb33a26dae1f5cf517d09f2c13431d7c3473b9f08")
    }

    @Test func `an RSA public area is encoded and decoded`() throws {
        let parameters = try RSAParameters(unmarshalling: [0, 0x10, 0, 0x10, 8, 0, 0, 1, 0, 1])
        let area = PublicArea(
            attributes: [.sign, .userWithAuth], authPolicy: [UInt8](repeating: 4, count: 32),
            detail: .rsa(parameters, modulus: [UInt8](repeating: 0xc5, count: 256)))
        #expect(try PublicArea(unmarshalling: area.marshalled) == area)
        #expect(throws: TPMError.self) { try PublicArea(unmarshalling: area.marshalled.dropLast()) }
    }

    @Test func `sizes above a field's maximum are refused`() {
        var reader = TPMReader([0x00, 0x05, 1, 2, 3, 4, 5])
        #expect(throws: TPMError.self) { try reader.readSized(maximum: 4) }
        var list = TPMReader([0xff, 0xff, 0xff, 0xff, 0, 0])
        #expect(throws: TPMError.self) {
            let _: [UInt16] = try list.readList(maximum: 16)
        }
        var empty = TPMReader([])
        #expect(throws: TPMError.self) { try empty.read(UInt8.self) }
    }

    @Test func `only trailing zeros of an authValue are removed, and it has at most 32 bytes`()
        throws
    {
        #expect(try TestTPM.authValue([0, 1, 0, 0]).count == 2)
        #expect(try TestTPM.authValue([0, 0]).count == 0)
        #expect(try TestTPM.authValue([UInt8](repeating: 1, count: 32) + [0]).count == 32)
        let long = [UInt8](repeating: 1, count: 33)
        #expect(long.withUnsafeBytes { AuthValue($0) } == nil)
        #expect("\(try TestTPM.authValue([1, 2]))" == "‹authValue›")
    }

    private func scalar(_ byte: UInt8) -> [UInt8] {
        [UInt8](repeating: 0, count: 24) + [UInt8](repeating: byte, count: 8)
    }

    private func hex(_ key: SymmetricKey) -> String { hex(key.withUnsafeBytes { Array($0) }) }

    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
