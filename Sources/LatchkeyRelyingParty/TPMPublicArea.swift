internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// The public area of a P-256 key (`TPMT_PUBLIC`, TPM 2.0 Part 2 section 12.2.4).
struct TPMPublicArea {
    /// `TPMA_OBJECT` (Part 2 section 8.3).
    struct Attributes: OptionSet, CustomStringConvertible {
        let rawValue: UInt32
        var description: String { "0x" + String(rawValue, radix: 16) }

        static let fixedTPM = Attributes(rawValue: 1 << 1)
        static let fixedParent = Attributes(rawValue: 1 << 4)
        static let sensitiveDataOrigin = Attributes(rawValue: 1 << 5)
        static let restricted = Attributes(rawValue: 1 << 16)
        static let decrypt = Attributes(rawValue: 1 << 17)
        static let sign = Attributes(rawValue: 1 << 18)

        /// Created in this TPM and unable to leave it.
        static let bound: Attributes = [.fixedTPM, .fixedParent, .sensitiveDataOrigin]
    }

    /// `TPM_ALG_ID` (Part 2 section 6.3).
    private enum Algorithm {
        static let sha256: UInt16 = 0x000B
        static let null: UInt16 = 0x0010
        static let ecdsa: UInt16 = 0x0018
        static let ecc: UInt16 = 0x0023
    }

    /// `TPM_ECC_NIST_P256` (Part 2 section 6.4).
    private static let p256: UInt16 = 0x0003

    let attributes: Attributes
    let publicKey: PublicKey
    /// `nameAlg ‖ H(publicArea)`, 34 bytes (Part 1 section 16).
    let name: Data

    init(_ bytes: Data, of what: String) throws(AttestationError) {
        func malformed(_ detail: String) -> AttestationError { AttestationError(.malformed, "\(what) \(detail)") }

        var reader = TPMReader(bytes, structure: what)
        guard try reader.number() == Algorithm.ecc else { throw malformed("is not an elliptic-curve key") }
        guard try reader.number() == Algorithm.sha256 else { throw malformed("does not use SHA-256 for its Name") }
        attributes = Attributes(rawValue: try reader.number())
        _ = try reader.sized()  // authPolicy
        guard try reader.number() == Algorithm.null else { throw malformed("has a symmetric algorithm") }
        switch try reader.number() as UInt16 {
        case Algorithm.null: break
        case Algorithm.ecdsa:
            guard try reader.number() == Algorithm.sha256 else { throw malformed("does not sign with SHA-256") }
        default: throw malformed("does not use ECDSA")
        }
        guard try reader.number() == Self.p256 else { throw malformed("is not on P-256") }
        guard try reader.number() == Algorithm.null else { throw malformed("has a key derivation function") }
        let x = try reader.sized()
        let y = try reader.sized()
        try reader.finish()
        guard
            let x = Self.coordinate(x), let y = Self.coordinate(y),
            let key = try? PublicKey(x963Representation: Data([4]) + x + y)
        else { throw malformed("is not a point on P-256") }
        publicKey = key
        name = Data([0x00, 0x0B]) + Data(SHA256.hash(data: bytes))
    }

    /// The coordinate in 32 bytes. A TPM can omit leading zeros.
    private static func coordinate(_ bytes: Data) -> Data? {
        bytes.count <= 32 ? Data(repeating: 0, count: 32 - bytes.count) + bytes : nil
    }
}

/// A `TPMS_ATTEST` about the creation of a key (TPM 2.0 Part 2 section 10.12.12).
struct TPMCreationStatement {
    /// `TPM_GENERATED_VALUE` (Part 2 section 6.2): `ff` `TCG`.
    static let magic: UInt32 = 0xFF54_4347
    /// `TPM_ST_ATTEST_CREATION` (Part 2 section 6.9).
    static let type: UInt16 = 0x801A

    /// The qualifying data: the challenge that the device passed to the TPM.
    let challenge: Data
    /// The Name of the key that was created.
    let name: Data

    init(_ bytes: Data) throws(AttestationError) {
        var reader = TPMReader(bytes, structure: "the statement")
        guard try reader.number() == Self.magic else {
            throw AttestationError(.wrongMagic, "the statement was not made by a TPM")
        }
        guard try reader.number() == Self.type else {
            throw AttestationError(.wrongType, "the statement is not about a creation")
        }
        _ = try reader.sized()  // qualifiedSigner
        challenge = try reader.sized()
        _ = try reader.take(8 + 4 + 4 + 1 + 8)  // TPMS_CLOCK_INFO, firmwareVersion
        name = try reader.sized()
        _ = try reader.sized()  // creationHash
        try reader.finish()
    }
}

/// Reads TPM structures: big-endian numbers and length-prefixed byte strings (TPM 2.0 Part 2 section 4). Throws at the
/// end of the bytes.
struct TPMReader {
    private var rest: Data.SubSequence
    private let structure: String

    init(_ bytes: Data, structure: String) {
        rest = bytes[...]
        self.structure = structure
    }

    /// Reads a `TPM2B`: a length in two bytes, then that many bytes.
    mutating func sized() throws(AttestationError) -> Data { try take(Int(number() as UInt16)) }

    /// Refuses remaining bytes.
    func finish() throws(AttestationError) {
        guard rest.isEmpty else { throw AttestationError(.malformed, "\(structure) has \(rest.count) extra bytes") }
    }

    mutating func take(_ count: Int) throws(AttestationError) -> Data {
        guard rest.count >= count else { throw AttestationError(.malformed, "\(structure) is too short") }
        defer { rest = rest.dropFirst(count) }
        return Data(rest.prefix(count))
    }

    mutating func number<Number: FixedWidthInteger>() throws(AttestationError) -> Number {
        try take(Number.bitWidth / 8).reduce(0) { $0 << 8 | Number($1) }
    }
}
