internal import Crypto
internal import FoundationEssentials
internal import SwiftASN1

/// A type whose DER form is a SEQUENCE.
protocol DERSequence: DERImplicitlyTaggable {
    /// Reads the elements, and checks their bounds.
    init(elements: inout ASN1NodeCollection.Iterator) throws

    func serializeElements(into coder: inout DER.Serializer) throws
}

extension DERSequence {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { try Self(elements: &$0) }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { try serializeElements(into: &$0) }
    }
}

extension DERSerializable {
    /// The structure in DER.
    func derBytes() throws -> [UInt8] {
        var serializer = DER.Serializer()
        try serializer.serialize(self)
        return serializer.serializedBytes
    }
}

extension ASN1NodeCollection.Iterator {
    /// Reads an OCTET STRING of `count` bytes.
    mutating func octets(count: Int) throws -> Data {
        let bytes = try ASN1OctetString(derEncoded: &self).bytes
        guard bytes.count == count else {
            throw ASN1Error.invalidASN1Object(
                reason: "a field has \(bytes.count) bytes and must have \(count)")
        }
        return Data(bytes)
    }

    /// Reads a UTF8String.
    mutating func text() throws -> String { String(try ASN1UTF8String(derEncoded: &self)) }
}

extension ASN1OctetString {
    init(_ bytes: some Sequence<UInt8>) { self.init(contentBytes: Array(bytes)[...]) }
}

/// A DER structure followed by its SHA-256, which detects accidental changes: a flipped bit, a
/// missing or an extra byte.
enum DigestedStructure {
    /// The maximum length of a stored structure: two certificates of 16 KiB and the other fields.
    private static let maximumBytes = 40 * 1024

    static func serialized(_ structure: some DERSerializable) throws -> Data {
        let bytes = try structure.derBytes()
        return Data(bytes) + Data(SHA256.hash(data: bytes))
    }

    /// - Throws: If the bytes are not exactly one such structure with its digest.
    static func parsed<Structure: DERParseable>(_ bytes: Data, as type: Structure.Type) throws
        -> Structure
    {
        guard bytes.count <= maximumBytes else {
            throw ASN1Error.invalidASN1Object(reason: "the stored structure is too long")
        }
        let structure = Array(bytes.dropLast(SHA256.byteCount))
        guard SHA256.hash(data: structure) == Data(bytes.suffix(SHA256.byteCount)) else {
            throw ASN1Error.invalidASN1Object(reason: "the digest does not match")
        }
        return try type.init(derEncoded: structure)
    }
}
