internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1

/// The blob of a stored key: the token, the key's ID, and facts about the key. It contains no
/// secret.
///
///     LatchkeyTokenKey ::= SEQUENCE {
///         version        INTEGER (1),
///         uri            UTF8String,                  -- token and CKA_ID, see TokenName
///         publicKeyHash  OCTET STRING (SIZE (32)),    -- SHA-256 of the uncompressed point
///         terms          KeyTerms,
///         isAdopted      INTEGER (0..1),              -- 1: the key was on the token already
///         alwaysAsks     INTEGER (0..1),              -- 1: CKA_ALWAYS_AUTHENTICATE
///         attestation    [0] EXPLICIT SEQUENCE OF OCTET STRING OPTIONAL, -- X.509, the key's own first
///         binding        OCTET STRING (SIZE (32)) }   -- the key's ID and label, see KeyBinding
struct TokenKeyBlob: Hashable, Sendable {
    static let version = 1

    let name: TokenName
    let publicKeyHash: Data
    let terms: KeyTerms
    let isAdopted: Bool
    /// Whether the token requires a proof for each use (`CKA_ALWAYS_AUTHENTICATE`).
    let alwaysAuthenticates: Bool
    let attestation: [Data]
    /// The token does not know it: it detects accidental changes of a row, not an attacker, who can
    /// change it too.
    var binding: KeyBinding
}

extension TokenKeyBlob {
    /// Reads a stored key, and checks that its public fields match its stored bytes.
    static func of(_ key: HardwareKey) throws(KeystoreError) -> TokenKeyBlob {
        guard key.backend == PKCS11Keystore.backend else { throw .otherBackend(key.backend) }
        let blob: TokenKeyBlob
        do {
            blob = try DigestedStructure.parsed(key.blob, as: TokenKeyBlob.self)
        } catch {
            throw .damaged("the key's stored bytes can't be read: \(error)")
        }
        guard blob.publicKeyHash == key.publicKey.fingerprint else {
            throw .damaged("the public key does not match the key's stored bytes")
        }
        guard blob.terms == KeyTerms(policy: key.policy, assurance: key.assurance) else {
            throw .damaged("the key's policy or assurance does not match its stored bytes")
        }
        try KeyBinding.check(blob.binding, of: key)
        return blob
    }

    func serialized() throws(KeystoreError) -> Data {
        do {
            return try DigestedStructure.serialized(self)
        } catch {
            throw KeystoreError(
                code: .failed, reason: "the key's stored form can't be serialized: \(error)",
                recovery: "Report this with the token's model.")
        }
    }
}

extension PublicKey {
    /// SHA-256 of the uncompressed point, 32 bytes.
    var fingerprint: Data { Data(SHA256.hash(data: x963Representation)) }
}

extension TokenKeyBlob: DERSequence {
    init(elements: inout ASN1NodeCollection.Iterator) throws {
        guard try Int(derEncoded: &elements) == Self.version else {
            throw ASN1Error.invalidASN1Object(reason: "another version")
        }
        name = try TokenName(derEncoded: &elements)
        publicKeyHash = try elements.octets(count: SHA256.byteCount)
        terms = try KeyTerms(derEncoded: &elements)
        isAdopted = try elements.flag()
        alwaysAuthenticates = try elements.flag()
        attestation =
            try DER.optionalExplicitlyTagged(&elements, tagNumber: 0, tagClass: .contextSpecific) {
                try DER.sequence(of: ASN1OctetString.self, identifier: .sequence, rootNode: $0).map
                { Data($0.bytes) }
            } ?? []
        guard
            let binding = KeyBinding(digest: try elements.octets(count: SHA256.byteCount))
        else { throw ASN1Error.invalidASN1Object(reason: "a binding is not a digest") }
        self.binding = binding
    }

    func serializeElements(into coder: inout DER.Serializer) throws {
        try coder.serialize(Self.version)
        try coder.serialize(name)
        try coder.serialize(ASN1OctetString(publicKeyHash))
        try coder.serialize(terms)
        try coder.serialize(isAdopted ? 1 : 0)
        try coder.serialize(alwaysAuthenticates ? 1 : 0)
        if !attestation.isEmpty {
            try coder.serialize(explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific) {
                coder in
                try coder.serializeSequenceOf(attestation.map { ASN1OctetString($0) })
            }
        }
        try coder.serialize(ASN1OctetString(binding.digest))
    }
}

/// The policy and the assurance of a key or secret. They are stored twice, as fields of the record
/// and in the blob, so that a change is detected.
struct KeyTerms: Hashable, Sendable {
    let policy: AccessPolicy
    let assurance: AssuranceLevel
}

/// In DER:
///
///     KeyTerms ::= SEQUENCE {
///         requirement   UTF8String,
///         reuseSeconds  INTEGER,
///         root          UTF8String,
///         presence      UTF8String }
extension KeyTerms: DERSequence {
    init(elements: inout ASN1NodeCollection.Iterator) throws {
        let requirement = AccessPolicy.Requirement(rawValue: try elements.text())
        let reuseSeconds = try Int(derEncoded: &elements)
        let root = AssuranceLevel.Root(rawValue: try elements.text())
        let presence = AssuranceLevel.EnforcedPresence(rawValue: try elements.text())
        guard let requirement, let policy = AccessPolicy(requirement, reuseSeconds: reuseSeconds),
            let root,
            let presence
        else { throw ASN1Error.invalidASN1Object(reason: "the policy or assurance is unknown") }
        self.init(policy: policy, assurance: AssuranceLevel(root: root, presence: presence))
    }

    func serializeElements(into coder: inout DER.Serializer) throws {
        try coder.serialize(ASN1UTF8String(policy.requirement.rawValue))
        try coder.serialize(policy.reuseSeconds)
        try coder.serialize(ASN1UTF8String(assurance.root.rawValue))
        try coder.serialize(ASN1UTF8String(assurance.presence.rawValue))
    }
}

/// The stored name of a token and a key: an RFC 7512 URI without a module, since the path of a
/// module can change.
struct TokenName: Hashable, Sendable {
    /// The maximum length of a stored URI: four fields of at most 32 bytes and an ID of 64, all
    /// escaped.
    static let maximumBytes = 1024

    let texts: TokenTexts
    /// `CKA_ID`, 1 to 64 bytes.
    let id: Data

    init(_ token: TokenInformation, id: Data) {
        texts = token.texts
        self.id = id
    }

    /// - Returns: nil unless the text is a URI with these five attributes and no other.
    init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes, let uri = try? TokenURI(text) else {
            return nil
        }
        guard let manufacturer = uri.manufacturerText, let model = uri.modelText,
            let serial = uri.serialText, let label = uri.labelText, let id = uri.keyID,
            (1...64).contains(id.count), uri.modulePath == nil
        else { return nil }
        texts = TokenTexts(label: label, manufacturer: manufacturer, model: model, serial: serial)
        self.id = id
    }

    var manufacturer: String { texts.manufacturer.text }
    var model: String { texts.model.text }
    var serial: String { texts.serial.text }
    var label: String { texts.label.text }

    /// For example
    /// `pkcs11:manufacturer=Yubico;model=YubiKey%20YK5;serial=12345678;token=YubiKey%20PIV;id=%02`.
    var uri: String { uri(of: \.bytes, keyLabel: nil) }

    /// The URI with the module to load, for Latchkey and other programs.
    ///
    /// - Parameter keyLabel: `CKA_LABEL`, for a key that its ID does not identify.
    func uri(inModule path: String, keyLabel: String? = nil) -> String {
        "\(uri(of: \.printed, keyLabel: keyLabel))?module-path=\(Self.escaped(path.utf8, keeping: "/"))"
    }

    private func uri(of bytes: KeyPath<TokenText, [UInt8]>, keyLabel: String?) -> String {
        let pairs = [
            ("manufacturer", texts.manufacturer), ("model", texts.model), ("serial", texts.serial),
            ("token", texts.label),
        ].map { "\($0)=\(Self.escaped($1[keyPath: $1.bytes.isEmpty ? \.bytes : bytes]))" }
        let key =
            ["id=\(Self.escaped(id))"]
            + (keyLabel.map { ["object=\(Self.escaped($0.utf8))"] } ?? [])
        return "pkcs11:" + (pairs + key).joined(separator: ";")
    }

    /// Whether the name matches a token. A serial number decides, since labels may change (OpenSC
    /// takes a card's label from a certificate). Without one, as on tpm2-pkcs11, and on a card with
    /// a slot for each PIN, the label decides.
    func fits(_ token: Token) -> Bool {
        isSameDevice(token.information)
            && (!token.identity.sharesSerial || texts.label == token.information.texts.label)
    }

    /// Whether the name matches a token, or another slot of the same card.
    func isSameDevice(_ found: TokenInformation) -> Bool {
        texts.isSameDevice(as: found.texts) && (hasSerial || texts.label == found.texts.label)
    }

    /// The module that reported the name, if the manufacturer shows it: ykcs11 and OpenSC report a
    /// fixed text for PIV cards.
    var module: (family: ModuleProfile.Family, name: String)? {
        if manufacturer.hasPrefix("Yubico") { return (.ykcs11, "ykcs11") }
        return manufacturer == "piv_II" ? (.opensc, "OpenSC") : nil
    }

    /// Whether the serial number identifies the token.
    var hasSerial: Bool { texts.hasSerial }

    private static func escaped(_ bytes: some Sequence<UInt8>, keeping plain: Unicode.Scalar? = nil)
        -> String
    {
        bytes.map { byte in
            switch byte {
            case _ where plain == Unicode.Scalar(byte): String(Unicode.Scalar(byte))
            case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                String(Unicode.Scalar(byte))
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }.joined()
    }
}

/// In DER: the URI as a UTF8String.
extension TokenName: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .utf8String }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        let text = String(try ASN1UTF8String(derEncoded: node, withIdentifier: identifier))
        guard let name = TokenName(text) else {
            throw ASN1Error.invalidASN1Object(reason: "not the URI of a key on a token")
        }
        self = name
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try ASN1UTF8String(uri).serialize(into: &coder, withIdentifier: identifier)
    }
}

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

    /// Reads an INTEGER that is 0 or 1.
    mutating func flag() throws -> Bool {
        let number = try Int(derEncoded: &self)
        guard (0...1).contains(number) else {
            throw ASN1Error.invalidASN1Object(reason: "a flag is out of range")
        }
        return number == 1
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
