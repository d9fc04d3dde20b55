internal import Crypto
internal import FoundationEssentials
internal import Latchkey

/// `CKA_EC_POINT` of a P-256 key.
enum ECPoint {
    /// More than a valid length, so that a longer value is detected.
    static let maximumBytes = 512

    /// Reads a point. The standard requires an OCTET STRING in DER (PKCS#11 2.40 mechanisms section
    /// 2.3.3) of a point in any form of X9.62: uncompressed, compressed or hybrid. Some modules
    /// encode a BIT STRING, or return the bare point. Refuses anything else: some modules have
    /// returned other memory here.
    static func publicKey(_ value: [UInt8]) throws(CryptokiError) -> PublicKey {
        let lengths = [65, 33]
        let heads = lengths.flatMap { length -> [[UInt8]] in
            let count = UInt8(length)
            return [[], [0x04, count], [0x04, 0x81, count], [0x03, count + 1, 0x00]]
                .filter { $0.count + length == value.count }
        }
        guard let head = heads.first(where: { value.starts(with: $0) }) else {
            throw .malformed(
                "C_GetAttributeValue",
                "CKA_EC_POINT has \(value.count) bytes and is not a point on P-256")
        }
        guard let point = uncompressed(Array(value.dropFirst(head.count))),
            let key = try? PublicKey(x963Representation: point)
        else { throw .malformed("C_GetAttributeValue", "CKA_EC_POINT is not on P-256") }
        return key
    }

    /// The uncompressed form of a point in any form.
    private static func uncompressed(_ point: [UInt8]) -> Data? {
        switch (point.first, point.last) {
        case (0x04, _): return Data(point)
        case (0x02, _), (0x03, _):
            return try? P256.Signing.PublicKey(compressedRepresentation: point).x963Representation
        // Hybrid: the first byte states whether y is odd.
        case (0x06, let y?) where y & 1 == 0, (0x07, let y?) where y & 1 == 1:
            return Data([0x04] + point.dropFirst())
        default: return nil
        }
    }
}
