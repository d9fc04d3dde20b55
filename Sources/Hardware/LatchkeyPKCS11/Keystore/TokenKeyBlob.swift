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
///         facts          KeyFacts,
///         attestation    [0] EXPLICIT SEQUENCE OF OCTET STRING OPTIONAL, -- X.509, the key's own first
///         binding        [1] EXPLICIT OCTET STRING OPTIONAL }            -- the key's ID and label, see KeyBinding
struct TokenKeyBlob: Hashable, Sendable {
    static let version = 1

    let name: TokenName
    let publicKeyHash: Data
    let terms: KeyTerms
    let isAdopted: Bool
    let facts: KeyFacts
    let attestation: [Data]
    /// nil for a key of an earlier version. The token does not know it: it detects accidental
    /// changes of a row, not an attacker, who can change it too.
    var binding: KeyBinding?
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
        switch try Int(derEncoded: &elements) {
        case 0: isAdopted = false
        case 1: isAdopted = true
        default: throw ASN1Error.invalidASN1Object(reason: "isAdopted is out of range")
        }
        facts = try KeyFacts(derEncoded: &elements)
        attestation =
            try DER.optionalExplicitlyTagged(&elements, tagNumber: 0, tagClass: .contextSpecific) {
                try DER.sequence(of: ASN1OctetString.self, identifier: .sequence, rootNode: $0).map
                { Data($0.bytes) }
            } ?? []
        binding = try DER.optionalExplicitlyTagged(
            &elements, tagNumber: 1, tagClass: .contextSpecific
        ) { node in
            guard let binding = KeyBinding(digest: try ASN1OctetString(derEncoded: node).bytes)
            else {
                throw ASN1Error.invalidASN1Object(reason: "a binding is not a digest")
            }
            return binding
        }
    }

    func serializeElements(into coder: inout DER.Serializer) throws {
        try coder.serialize(Self.version)
        try coder.serialize(name)
        try coder.serialize(ASN1OctetString(publicKeyHash))
        try coder.serialize(terms)
        try coder.serialize(isAdopted ? 1 : 0)
        try coder.serialize(facts)
        if !attestation.isEmpty {
            try coder.serialize(explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific) {
                coder in
                try coder.serializeSequenceOf(attestation.map { ASN1OctetString($0) })
            }
        }
        if let binding {
            try coder.serialize(
                ASN1OctetString(binding.digest), explicitlyTaggedWithTagNumber: 1,
                tagClass: .contextSpecific)
        }
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

/// The attributes that a token reported when a key was created or adopted. They are only
/// informative, since some modules report them wrongly. nil means that the token did not report it.
struct KeyFacts: Hashable, Sendable {
    let isSensitive: Bool?
    let wasNeverExtractable: Bool?
    let isLocal: Bool?
    let alwaysAuthenticates: Bool?
}

extension KeyFacts {
    init(_ attributes: TokenKey.Attributes) {
        self.init(
            isSensitive: attributes.isSensitive,
            wasNeverExtractable: attributes.wasNeverExtractable,
            isLocal: attributes.isLocal, alwaysAuthenticates: attributes.alwaysAuthenticates)
    }
}

/// In DER: a SEQUENCE of four INTEGERs in the order above; 0 is false, 1 true, 2 not reported.
extension KeyFacts: DERSequence {
    init(elements: inout ASN1NodeCollection.Iterator) throws {
        isSensitive = try Self.fact(&elements)
        wasNeverExtractable = try Self.fact(&elements)
        isLocal = try Self.fact(&elements)
        alwaysAuthenticates = try Self.fact(&elements)
    }

    func serializeElements(into coder: inout DER.Serializer) throws {
        for fact in [isSensitive, wasNeverExtractable, isLocal, alwaysAuthenticates] {
            try coder.serialize(fact.map { $0 ? 1 : 0 } ?? 2)
        }
    }

    private static func fact(_ nodes: inout ASN1NodeCollection.Iterator) throws -> Bool? {
        switch try Int(derEncoded: &nodes) {
        case 0: false
        case 1: true
        case 2: nil
        default:
            throw ASN1Error.invalidASN1Object(
                reason: "a reported attribute is neither true, false nor unknown")
        }
    }
}
