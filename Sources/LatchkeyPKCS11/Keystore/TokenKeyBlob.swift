internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1

/// What a stored key holds for this keystore: where the key is, and what is known of it. Nothing in it is secret.
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
    /// nil for a key of an earlier version. The token does not know it: it shows a row that was changed by accident, and
    /// nothing keeps an attacker from changing it too.
    var binding: KeyBinding?

    init(
        name: TokenName, publicKey: PublicKey, terms: KeyTerms, isAdopted: Bool, facts: KeyFacts, attestation: [Data],
        binding: KeyBinding
    ) {
        self.binding = binding
        self.name = name
        publicKeyHash = publicKey.fingerprint
        self.terms = terms
        self.isAdopted = isAdopted
        self.facts = facts
        self.attestation = attestation
    }
}

extension PublicKey {
    /// SHA-256 of the uncompressed point, 32 bytes.
    var fingerprint: Data { Data(SHA256.hash(data: x963Representation)) }
}

extension TokenKeyBlob: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            guard try Int(derEncoded: &nodes) == Self.version else {
                throw ASN1Error.invalidASN1Object(reason: "another version")
            }
            let name = try TokenName(derEncoded: &nodes)
            let hash = try ASN1OctetString(derEncoded: &nodes)
            let terms = try KeyTerms(derEncoded: &nodes)
            let isAdopted = try Int(derEncoded: &nodes)
            let facts = try KeyFacts(derEncoded: &nodes)
            let attestation = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
                try DER.sequence(of: ASN1OctetString.self, identifier: .sequence, rootNode: $0).map { Data($0.bytes) }
            }
            let binding = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 1, tagClass: .contextSpecific) { node in
                guard let binding = KeyBinding(digest: try ASN1OctetString(derEncoded: node).bytes) else {
                    throw ASN1Error.invalidASN1Object(reason: "a binding is no digest")
                }
                return binding
            }
            guard hash.bytes.count == SHA256.byteCount, (0...1).contains(isAdopted) else {
                throw ASN1Error.invalidASN1Object(reason: "a field out of its bounds")
            }
            return TokenKeyBlob(
                name: name, publicKeyHash: Data(hash.bytes), terms: terms, isAdopted: isAdopted == 1, facts: facts,
                attestation: attestation ?? [], binding: binding)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier) throws {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(Self.version)
            try coder.serialize(name)
            try coder.serialize(ASN1OctetString(contentBytes: Array(publicKeyHash)[...]))
            try coder.serialize(terms)
            try coder.serialize(isAdopted ? 1 : 0)
            try coder.serialize(facts)
            if !attestation.isEmpty {
                try coder.serialize(explicitlyTaggedWithTagNumber: 0, tagClass: .contextSpecific) { coder in
                    try coder.serializeSequenceOf(attestation.map { ASN1OctetString(contentBytes: Array($0)[...]) })
                }
            }
            if let binding {
                try coder.serialize(
                    ASN1OctetString(contentBytes: binding.digest[...]), explicitlyTaggedWithTagNumber: 1,
                    tagClass: .contextSpecific)
            }
        }
    }

    private init(
        name: TokenName, publicKeyHash: Data, terms: KeyTerms, isAdopted: Bool, facts: KeyFacts, attestation: [Data],
        binding: KeyBinding?
    ) {
        self.binding = binding
        self.name = name
        self.publicKeyHash = publicKeyHash
        self.terms = terms
        self.isAdopted = isAdopted
        self.facts = facts
        self.attestation = attestation
    }
}
