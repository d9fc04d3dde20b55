internal import Crypto
internal import FoundationEssentials
internal import SwiftASN1

/// A structure that is stored in DER, with its SHA-256 behind it. The digest is there for accidents.
protocol StoredStructure: DERImplicitlyTaggable {}

extension StoredStructure {
    /// The stored bytes.
    var serialized: Data {
        get throws {
            var serializer = DER.Serializer()
            try serializer.serialize(self)
            return Data(serializer.serializedBytes) + Data(SHA256.hash(data: serializer.serializedBytes))
        }
    }

    /// - Throws: When the bytes are not such a structure with its digest and nothing else.
    init(_ bytes: Data) throws {
        let structure = Array(bytes.dropLast(SHA256.byteCount))
        guard SHA256.hash(data: structure) == Data(bytes.suffix(SHA256.byteCount)) else {
            throw ASN1Error.invalidASN1Object(reason: "the digest does not fit")
        }
        try self.init(derEncoded: structure)
    }
}
