internal import Crypto
internal import FoundationEssentials
internal import SwiftASN1

/// A structure in DER with its SHA-256 behind it, which notices accidents: a flipped bit, a cut, a byte too many.
enum DigestedStructure {
    /// The most bytes of a stored structure: two certificates of 16 KiB and some.
    private static let maximumBytes = 40 * 1024

    static func serialized(_ structure: some DERSerializable) throws -> Data {
        var serializer = DER.Serializer()
        try serializer.serialize(structure)
        return Data(serializer.serializedBytes) + Data(SHA256.hash(data: serializer.serializedBytes))
    }

    /// - Throws: When the bytes are not one such structure with its digest and nothing else.
    static func parsed<Structure: DERParseable>(_ bytes: Data, as type: Structure.Type) throws -> Structure {
        guard bytes.count <= maximumBytes else { throw ASN1Error.invalidASN1Object(reason: "it is too long") }
        let structure = Array(bytes.dropLast(SHA256.byteCount))
        guard SHA256.hash(data: structure) == Data(bytes.suffix(SHA256.byteCount)) else {
            throw ASN1Error.invalidASN1Object(reason: "the digest does not fit")
        }
        return try type.init(derEncoded: structure)
    }
}
