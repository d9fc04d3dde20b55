internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import TPM2

/// The stored bytes of a key or sealed secret: a DER structure, followed by its SHA-256.
///
///     LatchkeyTPMKey ::= SEQUENCE {
///         version     INTEGER (1..2),
///         key         TPMKey,                            -- a whole TSS2 PRIVATE KEY
///         parentName  OCTET STRING,                      -- the Name of the storage root key
///         pinSalt     [0] EXPLICIT OCTET STRING OPTIONAL,
///         birth       [1] EXPLICIT SEQUENCE {            -- the input of CertifyCreation
///             creationHash    OCTET STRING,
///             creationTicket  OCTET STRING } OPTIONAL,
///         presence    [2] EXPLICIT OCTET STRING OPTIONAL,   -- its authorizations other than its own PIN
///         binding     [3] EXPLICIT OCTET STRING OPTIONAL }  -- only in version 2: the key's ID and label
///
/// The TPM authenticates the key. The digest detects accidental damage: with a damaged salt, the
/// TPM would count the right PIN as a wrong one.
struct TPMKeyBlob: Hashable, Sendable {
    /// The input of CertifyCreation for the key.
    struct Creation: Hashable, Sendable {
        let hash: [UInt8]
        let ticket: Ticket
    }

    var key: TSS2PrivateKey
    let parentName: TPMName
    var pinSalt: [UInt8]?
    var creation: Creation?
    var protection: PresenceProtection?
    /// The binding of a key to its row. Nil for a secret and for a key of an earlier version.
    var binding: KeyBinding?

    /// The scheme to name in each use: null for a key with a fixed scheme.
    var scheme: Scheme { key.publicArea.keyForm == .webAuthn ? .ecdsaSHA256 : .null }

    /// Returns the same object, wrapped with another authValue or bound to another label.
    func replacing(privatePart: PrivateBlob, pinSalt: [UInt8]?, binding: KeyBinding?) -> TPMKeyBlob
    {
        var blob = self
        blob.key.privatePart = privatePart
        blob.pinSalt = pinSalt
        blob.binding = binding
        return blob
    }
}

extension TPMKeyBlob {
    init(
        _ created: CreatedObject, _ kind: TSS2PrivateKey.Kind = .loadable,
        hasEmptyAuth: Bool = false,
        under root: StorageRoot, pinSalt: [UInt8]? = nil, protection: PresenceProtection? = nil,
        binding: KeyBinding? = nil
    ) {
        self.init(
            key: TSS2PrivateKey(
                kind: kind, hasEmptyAuth: hasEmptyAuth, parent: root.parentHandle,
                publicArea: created.publicArea,
                privatePart: created.privatePart),
            parentName: root.name, pinSalt: pinSalt,
            creation: Creation(hash: created.creationHash, ticket: created.creationTicket),
            protection: protection,
            binding: binding)
    }
}

extension TPMKeyBlob: StoredStructure {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let version = try Int(derEncoded: &nodes)
            guard (1...2).contains(version) else {
                throw ASN1Error.invalidASN1Object(reason: "unknown version")
            }
            let key = try TSS2PrivateKey(derEncoded: &nodes)
            let parentName = TPMName(bytes: try DER.octets(&nodes))
            let salt = try DER.octets(&nodes, tag: 0)
            let creation = try DER.optionalExplicitlyTagged(
                &nodes, tagNumber: 1, tagClass: .contextSpecific
            ) { node in
                try DER.sequence(node, identifier: .sequence) { nodes in
                    Creation(
                        hash: try DER.octets(&nodes),
                        ticket: try Ticket(unmarshalling: try DER.octets(&nodes)))
                }
            }
            let protection = try DER.octets(&nodes, tag: 2).map {
                try PresenceProtection(bytes: $0)
            }
            let binding =
                try DER.octets(&nodes, tag: 3).flatMap {
                    KeyBinding(digest: $0)
                }
            guard (binding != nil) == (version == 2) else {
                throw ASN1Error.invalidASN1Object(reason: "the fields do not match the version")
            }
            return TPMKeyBlob(
                key: key, parentName: parentName, pinSalt: salt, creation: creation,
                protection: protection, binding: binding)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(binding == nil ? 1 : 2)
            try coder.serialize(key)
            try coder.serialize(octets: parentName.bytes)
            try coder.serialize(octets: pinSalt, tag: 0)
            if let creation { try Self.serialize(creation, into: &coder) }
            try coder.serialize(octets: protection?.bytes, tag: 2)
            try coder.serialize(octets: binding?.digest, tag: 3)
        }
    }

    private static func serialize(_ creation: Creation, into coder: inout DER.Serializer) throws {
        try coder.serialize(explicitlyTaggedWithTagNumber: 1, tagClass: .contextSpecific) { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                try coder.serialize(octets: creation.hash)
                try coder.serialize(octets: creation.ticket.marshalled)
            }
        }
    }
}

/// A structure that is stored in DER, followed by its SHA-256 to detect accidental damage.
protocol StoredStructure: DERImplicitlyTaggable {}

extension StoredStructure {
    /// The stored bytes.
    var serialized: Data {
        get throws {
            var serializer = DER.Serializer()
            try serializer.serialize(self)
            return Data(serializer.serializedBytes)
                + Data(SHA256.hash(data: serializer.serializedBytes))
        }
    }

    /// - Throws: Unless the bytes are such a structure and its digest.
    init(_ bytes: Data) throws {
        let structure = Array(bytes.dropLast(SHA256.byteCount))
        guard SHA256.hash(data: structure) == Data(bytes.suffix(SHA256.byteCount)) else {
            throw ASN1Error.invalidASN1Object(reason: "the digest is wrong")
        }
        try self.init(derEncoded: structure)
    }
}

extension DER {
    /// Reads an OCTET STRING.
    static func octets(_ nodes: inout ASN1NodeCollection.Iterator) throws -> [UInt8] {
        Array(try ASN1OctetString(derEncoded: &nodes).bytes)
    }

    /// Reads an optional OCTET STRING with an explicit context-specific tag.
    static func octets(_ nodes: inout ASN1NodeCollection.Iterator, tag: UInt) throws -> [UInt8]? {
        try optionalExplicitlyTagged(&nodes, tagNumber: tag, tagClass: .contextSpecific) {
            Array(try ASN1OctetString(derEncoded: $0).bytes)
        }
    }
}

extension DER.Serializer {
    /// Writes an OCTET STRING.
    mutating func serialize(octets: [UInt8]) throws {
        try serialize(ASN1OctetString(contentBytes: octets[...]))
    }

    /// Writes an OCTET STRING with an explicit context-specific tag, unless it is nil.
    mutating func serialize(octets: [UInt8]?, tag: UInt) throws {
        guard let octets else { return }
        try serialize(
            ASN1OctetString(contentBytes: octets[...]), explicitlyTaggedWithTagNumber: tag,
            tagClass: .contextSpecific)
    }
}
