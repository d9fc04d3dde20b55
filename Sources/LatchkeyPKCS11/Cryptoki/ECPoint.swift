internal import FoundationEssentials
internal import Latchkey

/// `CKA_EC_POINT` of a P-256 key.
enum ECPoint {
    /// Room for what would be too long, so that it shows.
    static let mostBytes = 512

    /// The standard has an OCTET STRING in DER (67 bytes, `04 41 04 …`; PKCS#11 2.40 mechanisms section 2.3.3), some
    /// modules the bare point (65 bytes, `04 …`). Nothing else is taken: modules have handed out other memory here.
    static func publicKey(_ value: [UInt8]) throws(CryptokiError) -> PublicKey {
        let point: ArraySlice<UInt8>
        switch value.count {
        case 67 where value.starts(with: [0x04, 0x41, 0x04]): point = value[2...]
        case 65 where value[0] == 0x04: point = value[...]
        default:
            throw .malformed("C_GetAttributeValue", "CKA_EC_POINT has \(value.count) bytes and is no point on P-256")
        }
        do throws(KeystoreError) {
            return try PublicKey(x963Representation: Data(point))
        } catch {
            throw .malformed("C_GetAttributeValue", "CKA_EC_POINT is not on P-256")
        }
    }
}
