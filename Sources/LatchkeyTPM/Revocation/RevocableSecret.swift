internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import TPM2

/// A secret that the TPM keeps whole, in an NV index of its own. What is stored of it says where the index is and what
/// opens it: a copy of the store has nothing of the secret, and when the index is gone the secret is gone.
///
/// Nobody reads the index but who proves its authValue, not even the owner. That is 32 random bytes in the store, so that
/// it takes the store and the TPM; or it is a PIN, hardened, and then the TPM counts wrong ones as it does for a key with a
/// PIN. Anybody who may speak for the owner can remove the index, as they can clear the TPM.
///
/// The index's policy lets whoever proves the authValue change it, and nothing else. A second branch of it is a random
/// number that nothing satisfies: it makes the Name the index's alone. The Name goes into each proof, so another index at
/// the same handle, in this TPM or another one, is not taken for it; one that somebody made with this very area, as its
/// copy in the store allows where the owner has no password, has another authValue and another content.
struct RevocableSecret: Hashable, Sendable {
    static let byteCount = 32
    /// Where the indices are, in the range that the TCG's registry of reserved handles leaves to the owner, behind the
    /// presence broker's.
    static let indices = UInt32(0x0180_4d00)..<0x0180_4dff

    /// The Name of the storage root key to which its sessions are salted.
    let parentName: TPMName
    /// As it is after its one write.
    let index: NVIndex
    /// The branch of the policy that nothing satisfies.
    let branch: PolicyDigest
    /// What opens it without a PIN: 32 bytes.
    let storedAuthValue: [UInt8]?

    var hasPIN: Bool { storedAuthValue == nil }

    /// - Throws: ``TPMError`` of kind `malformed` unless the area is one that ``unwritten(_:hasPIN:at:)`` makes, written.
    init(
        parentName: TPMName, index publicArea: NVPublicArea, branch: PolicyDigest, storedAuthValue: [UInt8]?
    ) throws(TPMError) {
        let expected = Self.unwritten(branch, hasPIN: storedAuthValue == nil, at: publicArea.index).written
        guard publicArea == expected, Self.indices.contains(publicArea.index.rawValue),
            storedAuthValue?.count ?? SHA256.byteCount == SHA256.byteCount
        else { throw TPMError(.malformed, reason: "the index of a secret has another form") }
        index = try NVIndex(publicArea: publicArea)
        self.parentName = parentName
        self.branch = branch
        self.storedAuthValue = storedAuthValue
    }

    /// The branches of the index's policy.
    var branches: [PolicyDigest] { Self.branches(branch) }

    /// The public area of a new index before its write.
    static func unwritten(_ branch: PolicyDigest, hasPIN: Bool, at place: TPMHandle) -> NVPublicArea {
        NVPublicArea(
            index: place, attributes: hasPIN ? [.authRead, .authWrite] : [.authRead, .authWrite, .noDA],
            authPolicy: PolicyDigest.or(branches(branch))?.bytes ?? [], dataSize: UInt16(byteCount))
    }

    /// What the PIN, or what is stored in its place, is to the TPM. The salt makes the authValues of two indices with one
    /// PIN different.
    func authValue(_ pin: PIN?) throws(TPMError) -> AuthValue {
        if let pin {
            return try PINHardening.authValue(pin, salt: Array(branch.bytes.prefix(PINHardening.saltBytes)))
        }
        guard let value = storedAuthValue?.withUnsafeBytes({ AuthValue($0) }) else {
            throw TPMError(.unsupported, reason: "there is no PIN, and nothing in its place")
        }
        return value
    }

    private static func branches(_ branch: PolicyDigest) -> [PolicyDigest] {
        [branch, PresenceProtection.UserPIN.changePolicy]
    }
}

extension PolicyDigest {
    /// A random number, which no assertions come to.
    static func random() -> PolicyDigest {
        SecretBytes.random(count: SHA256.byteCount).withUnsafeBytes { PolicyDigest(bytes: Array($0)) } ?? PolicyDigest()
    }
}

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
