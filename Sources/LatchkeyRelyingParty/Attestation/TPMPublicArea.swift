internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// The public area of a P-256 key (`TPMT_PUBLIC`, TPM 2.0 Part 2 section 12.2.4).
struct TPMPublicArea {
    /// `TPMA_OBJECT` (Part 2 section 8.3).
    struct Attributes: OptionSet {
        let rawValue: UInt32

        static let fixedTPM = Attributes(rawValue: 1 << 1)
        static let fixedParent = Attributes(rawValue: 1 << 4)
        static let sensitiveDataOrigin = Attributes(rawValue: 1 << 5)
        static let restricted = Attributes(rawValue: 1 << 16)
        static let decrypt = Attributes(rawValue: 1 << 17)
        static let sign = Attributes(rawValue: 1 << 18)

        /// Born in this TPM and never to leave it.
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
        func refuse(_ detail: String) -> AttestationError { AttestationError(.malformed, "\(what) \(detail)") }

        var reader = TPMReader(bytes, structure: what)
        guard try reader.uint16() == Algorithm.ecc else { throw refuse("is not an elliptic-curve key") }
        guard try reader.uint16() == Algorithm.sha256 else { throw refuse("is not named by SHA-256") }
        attributes = Attributes(rawValue: try reader.uint32())
        _ = try reader.sized()  // authPolicy
        guard try reader.uint16() == Algorithm.null else { throw refuse("has a symmetric algorithm") }
        switch try reader.uint16() {
        case Algorithm.null: break
        case Algorithm.ecdsa:
            guard try reader.uint16() == Algorithm.sha256 else { throw refuse("signs with another hash than SHA-256") }
        default: throw refuse("has another scheme than ECDSA")
        }
        guard try reader.uint16() == Self.p256 else { throw refuse("is not on P-256") }
        guard try reader.uint16() == Algorithm.null else { throw refuse("has a key derivation function") }
        let x = try reader.sized()
        let y = try reader.sized()
        try reader.finish()
        guard
            let x = Self.coordinate(x), let y = Self.coordinate(y),
            let key = try? PublicKey(x963Representation: Data([4]) + x + y)
        else { throw refuse("is not a point on P-256") }
        publicKey = key
        name = Data([0x00, 0x0B]) + Data(SHA256.hash(data: bytes))
    }

    /// A TPM may leave leading zeros out.
    private static func coordinate(_ bytes: Data) -> Data? {
        bytes.count <= 32 ? Data(repeating: 0, count: 32 - bytes.count) + bytes : nil
    }
}
