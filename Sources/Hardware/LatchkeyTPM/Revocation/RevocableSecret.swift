internal import Crypto
internal import FoundationEssentials
internal import Latchkey
internal import SwiftASN1
internal import TPM2

/// An NV index of the TPM that a revocable key or secret needs. There are two forms: an index with
/// a secret, and an index whose PIN opens a key.
///
/// In the first form, the stored record has the location of the index and its authorization. A copy
/// of the store does not contain the secret, and removing the index destroys the secret.
///
/// Only the authValue authorizes reading the index, not the owner. The authValue is 32 random bytes
/// in the store, so that reading requires the store and the TPM. Or it is derived from a PIN, and
/// the TPM counts wrong PINs as for a key with a PIN. The owner's authorization can remove the
/// index, as it can clear the TPM.
///
/// The policy of the index permits only the change of the authValue, with the current one. A second
/// branch is a random number that no assertions satisfy. It makes the Name unique. Each proof
/// includes the Name, so another index at the same handle, in this or another TPM, does not accept
/// it. If the owner has no password, an attacker can define an index with this public area from the
/// store, but with another authValue and other content.
///
/// In the second form, the content of the index means nothing. The key's policy requires the PIN of
/// the index (`PolicySecret`), so no value exists that opens the key without the PIN. The first
/// branch of the index's policy was satisfied by a key that was erased after the only write.
struct RevocableSecret: Hashable, Sendable {
    static let byteCount = 32
    /// The handles of the indices, after those of the presence broker in the owner's range (TCG
    /// registry of reserved TPM 2.0 handles and localities).
    static let indices = UInt32(0x0180_4d00)..<0x0180_4dff

    /// The Name of the storage root key to which sessions are salted.
    let parentName: TPMName
    /// The index after its only write.
    let index: NVIndex
    /// The first branch of the policy: random, or that of the erased key.
    let branch: PolicyDigest
    /// The authValue of an index without a PIN: 32 bytes.
    let storedAuthValue: [UInt8]?
    /// Whether the PIN of the index opens a key, and the index contains no secret.
    let isGate: Bool
    /// The ID and label of the key that the PIN opens: the authValue depends on them. Stored with
    /// the key. Nil for an index with a secret.
    var binding: KeyBinding?

    var hasPIN: Bool { storedAuthValue == nil }

    /// - Throws: ``TPMError`` of kind `malformed` unless the public area is that of
    ///   ``unwritten(_:hasPIN:isGate:at:)`` after the write.
    init(
        parentName: TPMName, index publicArea: NVPublicArea, branch: PolicyDigest,
        storedAuthValue: [UInt8]? = nil,
        isGate: Bool = false
    ) throws(TPMError) {
        let expected = Self.unwritten(
            branch, hasPIN: storedAuthValue == nil, isGate: isGate, at: publicArea.index
        ).written
        guard publicArea == expected, !isGate || storedAuthValue == nil,
            Self.indices.contains(publicArea.index.rawValue),
            storedAuthValue?.count ?? SHA256.byteCount == SHA256.byteCount
        else {
            throw TPMError(.malformed, reason: "the index of a revocable secret has another format")
        }
        index = try NVIndex(publicArea: publicArea)
        self.parentName = parentName
        self.branch = branch
        self.storedAuthValue = storedAuthValue
        self.isGate = isGate
    }

    /// - Throws: `KeystoreError` with code `invalidInput` unless the secret has ``byteCount``
    ///   bytes.
    static func checkCount(of secret: SecretBytes) throws(KeystoreError) {
        guard secret.count == byteCount else {
            throw .invalidInput("the secret has \(secret.count) bytes and must have \(byteCount)")
        }
    }

    /// The branches of the index's policy.
    var branches: [PolicyDigest] { Self.branches(branch) }

    /// The public area of a new index before its write.
    static func unwritten(
        _ branch: PolicyDigest, hasPIN: Bool, isGate: Bool = false, at handle: TPMHandle
    ) -> NVPublicArea {
        let secretAttributes: NVAttributes =
            hasPIN ? [.authRead, .authWrite] : [.authRead, .authWrite, .noDA]
        return NVPublicArea(
            index: handle,
            attributes: isGate ? PresenceProtection.UserPIN.onceAttributes : secretAttributes,
            authPolicy: PolicyDigest.or(branches(branch))?.bytes ?? [],
            dataSize: isGate ? PresenceProtection.UserPIN.dataSize : UInt16(byteCount))
    }

    /// The branch of a key's policy that the PIN of this index satisfies.
    var userPIN: PresenceProtection.UserPIN {
        get throws(TPMError) {
            try PresenceProtection.UserPIN(index: index, resetPolicy: branch.bytes)
        }
    }

    /// Derives the authValue from the PIN, or returns the stored one. The salt gives two indices
    /// with the same PIN different authValues.
    func authValue(_ pin: PIN?) throws(TPMError) -> AuthValue {
        if let pin, isGate { return try userPIN.authValue(pin, boundTo: binding) }
        if let pin {
            return try PINHardening.authValue(
                pin, salt: Array(branch.bytes.prefix(PINHardening.saltBytes)))
        }
        guard let value = storedAuthValue?.withUnsafeBytes({ AuthValue($0) }) else {
            throw TPMError(.unsupported, reason: "there is neither a PIN nor a stored authValue")
        }
        return value
    }

    private static func branches(_ branch: PolicyDigest) -> [PolicyDigest] {
        [branch, PresenceProtection.UserPIN.changePolicy]
    }
}

extension PolicyDigest {
    /// A random digest. No policy assertions result in it.
    static func random() -> PolicyDigest {
        SecretBytes.random(count: SHA256.byteCount).withUnsafeBytes {
            PolicyDigest(bytes: Array($0))
        } ?? PolicyDigest()
    }
}

/// The stored record: a DER structure, followed by its SHA-256.
///
///     LatchkeyTPMRevocableSecret ::= SEQUENCE {
///         version     INTEGER,                                 -- 1: with a secret, 2: its PIN opens a key
///         parentName  OCTET STRING,                            -- the Name of the storage root key
///         index       OCTET STRING,                            -- TPMS_NV_PUBLIC
///         branch      OCTET STRING,                            -- 32 bytes
///         authValue   [0] EXPLICIT OCTET STRING OPTIONAL }     -- 32 bytes, absent for a PIN
///
/// The digest detects accidental damage. With a damaged Name, the TPM would count the right PIN as
/// a wrong one.
extension RevocableSecret: StoredStructure {
    static var defaultIdentifier: ASN1Identifier { .sequence }

    init(derEncoded node: ASN1Node, withIdentifier identifier: ASN1Identifier) throws {
        self = try DER.sequence(node, identifier: identifier) { nodes in
            let version = try Int(derEncoded: &nodes)
            guard (1...2).contains(version) else {
                throw ASN1Error.invalidASN1Object(reason: "unknown version")
            }
            let parentName = TPMName(bytes: try DER.octets(&nodes))
            let index = try NVPublicArea(unmarshalling: try DER.octets(&nodes))
            guard let branch = PolicyDigest(bytes: try DER.octets(&nodes)) else {
                throw ASN1Error.invalidASN1Object(reason: "a branch is not a digest")
            }
            return try RevocableSecret(
                parentName: parentName, index: index, branch: branch,
                storedAuthValue: try DER.octets(&nodes, tag: 0),
                isGate: version == 2)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(isGate ? 2 : 1)
            try coder.serialize(octets: parentName.bytes)
            try coder.serialize(octets: index.publicArea.marshalled)
            try coder.serialize(octets: branch.bytes)
            try coder.serialize(octets: storedAuthValue, tag: 0)
        }
    }
}
