internal import FoundationEssentials
internal import SwiftASN1
internal import TPM2

/// What is stored: a structure in DER, and its SHA-256 behind it.
///
///     LatchkeyTPMRevocableSecret ::= SEQUENCE {
///         version     INTEGER (1),
///         parentName  OCTET STRING,                            -- the Name of the storage root key
///         index       OCTET STRING,                            -- TPMS_NV_PUBLIC
///         branch      OCTET STRING,                            -- 32 bytes
///         authValue   [0] EXPLICIT OCTET STRING OPTIONAL }     -- 32 bytes, unless a PIN opens it
///
/// The digest is there for accidents: with a damaged Name the right PIN would count as a wrong one.
extension RevocableSecret {
    private static let version = 1
}

extension RevocableSecret: StoredStructure {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            guard try Int(derEncoded: &nodes) == Self.version else {
                throw ASN1Error.invalidASN1Object(reason: "another version")
            }
            let parentName = try ASN1OctetString(derEncoded: &nodes)
            let index = try ASN1OctetString(derEncoded: &nodes)
            guard let branch = PolicyDigest(bytes: Array(try ASN1OctetString(derEncoded: &nodes).bytes)) else {
                throw ASN1Error.invalidASN1Object(reason: "a branch is no digest")
            }
            let authValue = try DER.optionalExplicitlyTagged(&nodes, tagNumber: 0, tagClass: .contextSpecific) {
                try Array(ASN1OctetString(derEncoded: $0).bytes)
            }
            return try RevocableSecret(
                parentName: TPMName(bytes: Array(parentName.bytes)),
                index: NVPublicArea(unmarshalling: Array(index.bytes)), branch: branch,
                storedAuthValue: authValue)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier) throws {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(Self.version)
            try coder.serialize(ASN1OctetString(contentBytes: parentName.bytes[...]))
            try coder.serialize(ASN1OctetString(contentBytes: index.publicArea.marshalled[...]))
            try coder.serialize(ASN1OctetString(contentBytes: branch.bytes[...]))
            if let storedAuthValue {
                try coder.serialize(
                    ASN1OctetString(contentBytes: storedAuthValue[...]), explicitlyTaggedWithTagNumber: 0,
                    tagClass: .contextSpecific)
            }
        }
    }
}
