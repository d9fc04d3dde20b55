internal import SwiftASN1

/// What a token reported of a key when it was made or adopted: kept as facts, since not every module tells the truth
/// (section 1.6 of the reference). nil is: not reported.
struct KeyFacts: Hashable, Sendable {
    let isSensitive: Bool?
    let wasNeverExtractable: Bool?
    let isLocal: Bool?
    let alwaysAuthenticates: Bool?

    init(_ attributes: TokenKey.Attributes) {
        isSensitive = attributes.isSensitive
        wasNeverExtractable = attributes.wasNeverExtractable
        isLocal = attributes.isLocal
        alwaysAuthenticates = attributes.alwaysAuthenticates
    }
}

/// In DER: a SEQUENCE of four INTEGERs in the order above; 0 is false, 1 true, 2 not reported.
extension KeyFacts: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            try KeyFacts(
                isSensitive: Self.fact(&nodes), wasNeverExtractable: Self.fact(&nodes), isLocal: Self.fact(&nodes),
                alwaysAuthenticates: Self.fact(&nodes))
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier) throws {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            for fact in [isSensitive, wasNeverExtractable, isLocal, alwaysAuthenticates] {
                try coder.serialize(fact.map { $0 ? 1 : 0 } ?? 2)
            }
        }
    }

    private init(isSensitive: Bool?, wasNeverExtractable: Bool?, isLocal: Bool?, alwaysAuthenticates: Bool?) {
        self.isSensitive = isSensitive
        self.wasNeverExtractable = wasNeverExtractable
        self.isLocal = isLocal
        self.alwaysAuthenticates = alwaysAuthenticates
    }

    private static func fact(_ nodes: inout ASN1NodeCollection.Iterator) throws -> Bool? {
        switch try Int(derEncoded: &nodes) {
        case 0: false
        case 1: true
        case 2: nil
        default: throw ASN1Error.invalidASN1Object(reason: "a fact that is neither true nor false nor unknown")
        }
    }
}
