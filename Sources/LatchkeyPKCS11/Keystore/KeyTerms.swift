internal import Latchkey
internal import SwiftASN1

/// Under which policy a key or a secret was made, and what the token promised: stored twice, in the open for everybody
/// and in the blob, where an edit shows.
struct KeyTerms: Hashable, Sendable {
    let policy: AccessPolicy
    let assurance: AssuranceLevel
}

extension KeyTerms {
    /// What a token promises under a policy.
    init(_ policy: AccessPolicy, on nature: TokenNature, needsTouch: Bool) {
        self.init(
            policy: policy,
            assurance: AssuranceLevel(
                root: nature.root, presence: nature.presence(policy.requirement, needsTouch: needsTouch)))
    }
}

/// In DER:
///
///     KeyTerms ::= SEQUENCE {
///         requirement   UTF8String,
///         reuseSeconds  INTEGER,
///         root          UTF8String,
///         presence      UTF8String }
extension KeyTerms: DERImplicitlyTaggable {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let requirement = AccessPolicy.Requirement(rawValue: String(try ASN1UTF8String(derEncoded: &nodes)))
            let reuseSeconds = try Int(derEncoded: &nodes)
            let root = AssuranceLevel.Root(rawValue: String(try ASN1UTF8String(derEncoded: &nodes)))
            let presence = AssuranceLevel.EnforcedPresence(rawValue: String(try ASN1UTF8String(derEncoded: &nodes)))
            guard let requirement, let policy = AccessPolicy(requirement, reuseSeconds: reuseSeconds), let root,
                let presence
            else { throw ASN1Error.invalidASN1Object(reason: "an unknown policy or assurance") }
            return KeyTerms(policy: policy, assurance: AssuranceLevel(root: root, presence: presence))
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier) throws {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(ASN1UTF8String(policy.requirement.rawValue))
            try coder.serialize(policy.reuseSeconds)
            try coder.serialize(ASN1UTF8String(assurance.root.rawValue))
            try coder.serialize(ASN1UTF8String(assurance.presence.rawValue))
        }
    }
}
