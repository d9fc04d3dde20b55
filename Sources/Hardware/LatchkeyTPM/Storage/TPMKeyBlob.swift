internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import TPM2

/// The stored bytes of a key or sealed secret: a DER structure, followed by its SHA-256.
///
///     LatchkeyTPMKey ::= SEQUENCE {
///         version     INTEGER (1),
///         key         TPMKey,                            -- a whole TSS2 PRIVATE KEY
///         parentName  OCTET STRING,                      -- the Name of the storage root key
///         protection  OCTET STRING,                      -- PresenceProtection
///         origin      [0] EXPLICIT SEQUENCE {            -- only for a signing key
///             creationHash    OCTET STRING,              -- the input of CertifyCreation
///             creationTicket  OCTET STRING,
///             binding         OCTET STRING } OPTIONAL }  -- the key's ID and label
///
/// The TPM authenticates the key. The digest detects accidental damage: with a damaged salt, the
/// TPM would count the right PIN as a wrong one.
struct TPMKeyBlob: Hashable, Sendable {
    /// The creation of a signing key, and its row.
    struct Origin: Hashable, Sendable {
        let creationHash: [UInt8]
        let creationTicket: Ticket
        var binding: KeyBinding
    }

    /// The kind of the object.
    enum Content: Sendable {
        case signingKey, macKey, sealedData
    }

    var key: TSS2PrivateKey
    let parentName: TPMName
    var protection: PresenceProtection
    /// Nil for every object but a user's signing key.
    var origin: Origin?

    var binding: KeyBinding? { origin?.binding }

    /// The scheme to name in each use: null for a key with a fixed scheme.
    var scheme: Scheme { key.publicArea.keyForm == .webAuthn ? .ecdsaSHA256 : .null }

    /// Nil for a combination that the keystore does not create.
    var content: Content? {
        switch (key.kind, key.publicArea.detail, origin) {
        case (.loadable, .ecc, _?): .signingKey
        case (.loadable, .keyedHash, nil): .macKey
        case (.sealed, .keyedHash, nil): .sealedData
        default: nil
        }
    }

    /// The branches of the object's policy.
    func branches(under policy: AccessPolicy) throws(TPMError) -> [PolicyDigest] {
        try protection.branches(under: policy)
    }

    /// Whether the object has the public area that the keystore gives to this content.
    func isMade(as content: Content, under policy: AccessPolicy) throws(TPMError) -> Bool {
        guard self.content == content else { return false }
        let template =
            switch content {
            case .signingKey:
                try KeyTemplates.signingKey(policy, protection, key.publicArea.keyForm)
            case .macKey: try KeyTemplates.macKey(policy, protection)
            case .sealedData: try KeyTemplates.sealedData(policy, protection)
            }
        return key.publicArea.isMade(from: template)
    }
}

extension TPMKeyBlob {
    /// - Parameter binding: That of a signing key.
    init(
        _ created: CreatedObject, _ protection: PresenceProtection,
        boundTo binding: KeyBinding? = nil, as kind: TSS2PrivateKey.Kind = .loadable,
        under root: StorageRoot
    ) {
        self.init(
            key: TSS2PrivateKey(
                kind: kind, hasEmptyAuth: protection == .open, parent: root.parentHandle,
                publicArea: created.publicArea, privatePart: created.privatePart),
            parentName: root.name, protection: protection,
            origin: binding.map {
                Origin(
                    creationHash: created.creationHash, creationTicket: created.creationTicket,
                    binding: $0)
            })
    }
}

extension TPMKeyBlob: StoredStructure {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            try DER.version(&nodes)
            return TPMKeyBlob(
                key: try TSS2PrivateKey(derEncoded: &nodes),
                parentName: TPMName(bytes: try DER.octets(&nodes)),
                protection: try PresenceProtection(bytes: try DER.octets(&nodes)),
                origin: try DER.optionalExplicitlyTagged(
                    &nodes, tagNumber: 0, tagClass: .contextSpecific
                ) { try Origin(derEncoded: $0) })
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(DER.currentVersion)
            try coder.serialize(key)
            try coder.serialize(octets: parentName.bytes)
            try coder.serialize(octets: protection.bytes)
            if let origin {
                try coder.serialize(
                    origin, explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific)
            }
        }
    }
}

extension TPMKeyBlob.Origin: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let hash = try DER.octets(&nodes)
            let ticket = try Ticket(unmarshalling: try DER.octets(&nodes))
            guard let binding = KeyBinding(digest: try DER.octets(&nodes)) else {
                throw ASN1Error.invalidASN1Object(reason: "a binding is not a digest")
            }
            return Self(creationHash: hash, creationTicket: ticket, binding: binding)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(octets: creationHash)
            try coder.serialize(octets: creationTicket.marshalled)
            try coder.serialize(octets: binding.digest)
        }
    }
}

extension PresenceProtection {
    /// The stored bytes: the number of the case, and its parts.
    var bytes: [UInt8] {
        var writer = TPMWriter()
        switch self {
        case .open: writer.write(UInt8(0))
        case .ownPIN(let salt, let finger):
            writer.write(UInt8(finger == nil ? 1 : 2))
            writer.write(salt)
            if let finger { writer.write(finger) }
        case .broker(let proof, let reuseSecret):
            switch proof {
            case .finger(let finger): writer.write(UInt8(3), finger)
            case .pin(let pin): writer.write(UInt8(4), pin)
            case .either(let finger, let pin): writer.write(UInt8(5), finger, pin)
            }
            writer.write(TPM2B(reuseSecret ?? []))
        case .gate(let pin): writer.write(UInt8(6), pin)
        case .secretIndex: writer.write(UInt8(7))
        }
        return writer.bytes
    }

    /// - Throws: ``TPMError`` of kind `malformed`.
    init(bytes: [UInt8]) throws(TPMError) {
        var reader = TPMReader(bytes)
        let kind = try reader.read(UInt8.self)
        switch kind {
        case 0: self = .open
        case 1, 2:
            self = .ownPIN(
                salt: try reader.readBytes(PINHardening.saltBytes),
                finger: kind == 1 ? nil : try reader.read())
        case 3: self = .broker(.finger(try reader.read()), reuseSecret: try reader.readReuse())
        case 4:
            let pin = try UserPIN(from: &reader, attributes: UserPIN.attributes)
            self = .broker(.pin(pin), reuseSecret: try reader.readReuse())
        case 5:
            let finger = try reader.read(Finger.self)
            let pin = try UserPIN(from: &reader, attributes: UserPIN.attributes)
            self = .broker(.either(finger, pin), reuseSecret: try reader.readReuse())
        case 6: self = .gate(try UserPIN(from: &reader, attributes: UserPIN.onceAttributes))
        case 7: self = .secretIndex
        default: throw TPMError(.malformed, reason: "a key's protection is of another kind")
        }
        try reader.finish()
    }
}

extension TPMReader {
    /// Reads the authValue for a reuse time: none, or 32 bytes.
    fileprivate mutating func readReuse() throws(TPMError) -> [UInt8]? {
        let secret = try readSized(maximum: PresenceProtection.authValueBytes)
        guard [0, PresenceProtection.authValueBytes].contains(secret.count) else {
            throw TPMError(.malformed, reason: "a key's authValue has another length")
        }
        return secret.isEmpty ? nil : secret
    }
}

extension PresenceProtection.UserPIN: TPMMarshallable {
    func marshal(into writer: inout TPMWriter) {
        writer.write(TPM2B(index.publicArea))
        writer.write(resetPolicy.bytes)
    }

    fileprivate init(from reader: inout TPMReader, attributes: NVAttributes) throws(TPMError) {
        try self.init(
            index: try reader.readSized(NVIndex.self, maximum: 256),
            resetPolicy: try reader.readBytes(32), attributes: attributes)
    }
}

extension PresenceProtection.Finger: TPMMarshallable, TPMUnmarshallable {
    func marshal(into writer: inout TPMWriter) {
        writer.write(
            user, TPM2B(authority), handle ?? .null, TPM2B(enrolmentSet ?? []),
            UInt8(counter == nil ? 0 : 1))
        if let counter { writer.write(TPM2B(counter.index.publicArea), counter.value) }
    }

    init(from reader: inout TPMReader) throws(TPMError) {
        user = try reader.read()
        authority = try reader.readSized(PublicArea.self, maximum: PublicArea.maximumBytes)
        let storedHandle = try reader.read(TPMHandle.self)
        handle = storedHandle == .null ? nil : storedHandle
        let set = try reader.readSized(maximum: 32)
        enrolmentSet = set.isEmpty ? nil : set
        let counters = try reader.read(UInt8.self)
        guard counters <= 1 else {
            throw TPMError(.malformed, reason: "a key's protection has \(counters) counters")
        }
        counter =
            counters == 0
            ? nil
            : PresenceProtection.Counter(
                index: try reader.readSized(NVIndex.self, maximum: 256), value: try reader.read())
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
    /// The version of all stored structures.
    static let currentVersion = 1

    /// Reads the version of a stored structure.
    static func version(_ nodes: inout ASN1NodeCollection.Iterator) throws {
        guard try Int(derEncoded: &nodes) == currentVersion else {
            throw ASN1Error.invalidASN1Object(reason: "unknown version")
        }
    }

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
