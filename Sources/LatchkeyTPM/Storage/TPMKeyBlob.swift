internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import TPM2

/// What a stored key or sealed secret holds for this keystore: a structure in DER, and its SHA-256 behind it.
///
///     LatchkeyTPMKey ::= SEQUENCE {
///         version     INTEGER (1..2),
///         key         TPMKey,                            -- a whole TSS2 PRIVATE KEY
///         parentName  OCTET STRING,                      -- the Name of the storage root key
///         pinSalt     [0] EXPLICIT OCTET STRING OPTIONAL,
///         birth       [1] EXPLICIT SEQUENCE {            -- what CertifyCreation wants back
///             creationHash    OCTET STRING,
///             creationTicket  OCTET STRING } OPTIONAL,
///         presence    [2] EXPLICIT OCTET STRING OPTIONAL,   -- what authorizes it besides a PIN of its own
///         binding     [3] EXPLICIT OCTET STRING OPTIONAL }  -- version 2, and only there: the key's ID and label
///
/// The TPM authenticates the key itself. The digest is there for accidents: with a damaged salt the right PIN would
/// count as a wrong one.
struct TPMKeyBlob: Hashable, Sendable {
    /// Proof of how the key was born.
    struct Birth: Hashable, Sendable {
        let hash: [UInt8]
        let ticket: Ticket
    }

    let key: TSS2PrivateKey
    let parentName: TPMName
    let pinSalt: [UInt8]?
    let birth: Birth?
    let protection: PresenceProtection?
    /// What of its row belongs to a key; nil for a secret, and for a key of an earlier version.
    let binding: KeyBinding?

    init(
        key: TSS2PrivateKey, parentName: TPMName, pinSalt: [UInt8]?, birth: Birth?,
        protection: PresenceProtection? = nil, binding: KeyBinding? = nil
    ) {
        self.protection = protection
        self.binding = binding
        self.key = key
        self.parentName = parentName
        self.pinSalt = pinSalt
        self.birth = birth
    }

    /// The same object wrapped for another authValue, or bound to another label.
    func replacing(privatePart: PrivateBlob, pinSalt: [UInt8]?, binding: KeyBinding?) -> TPMKeyBlob {
        TPMKeyBlob(
            key: TSS2PrivateKey(
                kind: key.kind, hasEmptyAuth: key.hasEmptyAuth, parent: key.parent, publicArea: key.publicArea,
                privatePart: privatePart),
            parentName: parentName, pinSalt: pinSalt, birth: birth, protection: protection, binding: binding)
    }
}

extension TPMKeyBlob: StoredStructure {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let version = try Int(derEncoded: &nodes)
            guard (1...2).contains(version) else { throw ASN1Error.invalidASN1Object(reason: "another version") }
            let key = try TSS2PrivateKey(derEncoded: &nodes)
            let parentName = try ASN1OctetString(derEncoded: &nodes)
            let salt = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
                try Array(ASN1OctetString(derEncoded: $0).bytes)
            }
            let birth = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 1, tagClass: .contextSpecific) { node in
                try DER.sequence(node, identifier: .sequence) { nodes in
                    Birth(
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
                throw ASN1Error.invalidASN1Object(reason: "a version without its fields")
            }
            return TPMKeyBlob(
                key: key, parentName: TPMName(bytes: Array(parentName.bytes)), pinSalt: salt, birth: birth,
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
            if let birth { try Self.serialize(birth, into: &coder) }
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

    private static func serialize(_ birth: Birth, into coder: inout DER.Serializer) throws {
        try coder.serialize(explicitlyTaggedWithTagNumber: 1, tagClass: .contextSpecific) { coder in
            try coder.appendConstructedNode(identifier: .sequence) { coder in
                try coder.serialize(ASN1OctetString(contentBytes: birth.hash[...]))
                try coder.serialize(ASN1OctetString(contentBytes: birth.ticket.marshalled[...]))
            }
        }
    }
}

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
