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
/// The TPM authenticates the key. The digest detects accidental damage: with a damaged salt, the TPM would count the right PIN
/// as a wrong one.
struct TPMKeyBlob: Hashable, Sendable {
    /// The input of CertifyCreation for the key.
    struct Creation: Hashable, Sendable {
        let hash: [UInt8]
        let ticket: Ticket
    }

    let key: TSS2PrivateKey
    let parentName: TPMName
    let pinSalt: [UInt8]?
    let creation: Creation?
    let protection: PresenceProtection?
    /// The binding of a key to its row. Nil for a secret and for a key of an earlier version.
    let binding: KeyBinding?

    init(
        key: TSS2PrivateKey, parentName: TPMName, pinSalt: [UInt8]?, creation: Creation?,
        protection: PresenceProtection? = nil, binding: KeyBinding? = nil
    ) {
        self.protection = protection
        self.binding = binding
        self.key = key
        self.parentName = parentName
        self.pinSalt = pinSalt
        self.creation = creation
    }

    /// Returns the same object, wrapped with another authValue or bound to another label.
    func replacing(privatePart: PrivateBlob, pinSalt: [UInt8]?, binding: KeyBinding?) -> TPMKeyBlob {
        TPMKeyBlob(
            key: TSS2PrivateKey(
                kind: key.kind, hasEmptyAuth: key.hasEmptyAuth, parent: key.parent, publicArea: key.publicArea,
                privatePart: privatePart),
            parentName: parentName, pinSalt: pinSalt, creation: creation, protection: protection, binding: binding)
    }
}

extension TPMKeyBlob: StoredStructure {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let version = try Int(derEncoded: &nodes)
            guard (1...2).contains(version) else { throw ASN1Error.invalidASN1Object(reason: "unknown version") }
            let key = try TSS2PrivateKey(derEncoded: &nodes)
            let parentName = try ASN1OctetString(derEncoded: &nodes)
            let salt = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
                try Array(ASN1OctetString(derEncoded: $0).bytes)
            }
            let creation = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 1, tagClass: .contextSpecific) { node in
                try DER.sequence(node, identifier: .sequence) { nodes in
                    Creation(
                        hash: Array(try ASN1OctetString(derEncoded: &nodes).bytes),
                        ticket: try Ticket(unmarshalling: try ASN1OctetString(derEncoded: &nodes).bytes))
                }
            }
            let protection = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 2, tagClass: .contextSpecific) {
                try PresenceProtection(bytes: Array(ASN1OctetString(derEncoded: $0).bytes))
            }
            let binding =
                try DER.optionalExplicitlyTagged(&nodes, tagNumber: 3, tagClass: .contextSpecific) {
                    KeyBinding(digest: try ASN1OctetString(derEncoded: $0).bytes)
                } ?? nil
            guard (binding != nil) == (version == 2) else {
                throw ASN1Error.invalidASN1Object(reason: "the fields do not match the version")
            }
            return TPMKeyBlob(
                key: key, parentName: TPMName(bytes: Array(parentName.bytes)), pinSalt: salt, creation: creation,
                protection: protection, binding: binding)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier) throws {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(binding == nil ? 1 : 2)
            try coder.serialize(key)
            try coder.serialize(ASN1OctetString(contentBytes: parentName.bytes[...]))
            if let pinSalt {
                try coder.serialize(
                    ASN1OctetString(contentBytes: pinSalt[...]), explicitlyTaggedWithTagNumber: 0,
                    tagClass: .contextSpecific)
            }
            if let creation { try Self.serialize(creation, into: &coder) }
            if let protection {
                try coder.serialize(
                    ASN1OctetString(contentBytes: protection.bytes[...]), explicitlyTaggedWithTagNumber: 2,
                    tagClass: .contextSpecific)
            }
            if let binding {
                try coder.serialize(
                    ASN1OctetString(contentBytes: binding.digest[...]), explicitlyTaggedWithTagNumber: 3,
                    tagClass: .contextSpecific)
            }
        }
    }

    private static func serialize(_ creation: Creation, into coder: inout DER.Serializer) throws {
        try coder.serialize(explicitlyTaggedWithTagNumber: 1, tagClass: .contextSpecific) { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                try coder.serialize(ASN1OctetString(contentBytes: creation.hash[...]))
                try coder.serialize(ASN1OctetString(contentBytes: creation.ticket.marshalled[...]))
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
            return Data(serializer.serializedBytes) + Data(SHA256.hash(data: serializer.serializedBytes))
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
