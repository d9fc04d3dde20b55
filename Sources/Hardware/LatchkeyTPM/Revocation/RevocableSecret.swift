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
    /// The content of the index and its authorization.
    enum Form: Hashable, Sendable {
        /// A secret, under an authValue of 32 bytes in the stored record.
        case secret(authValue: [UInt8])
        /// A secret, under a PIN.
        case secretWithPIN
        /// No secret. The PIN opens a key.
        case gate
    }

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
    let form: Form
    /// The ID and label of the key that the PIN opens: the authValue depends on them. Stored with
    /// the key. Nil for an index with a secret.
    var binding: KeyBinding?

    var hasPIN: Bool {
        if case .secret = form { false } else { true }
    }

    /// - Throws: ``TPMError`` of kind `malformed` unless the public area is that of
    ///   ``unwritten(_:_:at:)`` after the write.
    init(
        parentName: TPMName, index publicArea: NVPublicArea, branch: PolicyDigest, form: Form
    ) throws(TPMError) {
        var authValueCount = SHA256.byteCount
        if case .secret(let authValue) = form { authValueCount = authValue.count }
        guard publicArea == Self.unwritten(branch, form, at: publicArea.index).written,
            Self.indices.contains(publicArea.index.rawValue), authValueCount == SHA256.byteCount
        else {
            throw TPMError(.malformed, reason: "the index of a revocable secret has another format")
        }
        index = try NVIndex(publicArea: publicArea)
        self.parentName = parentName
        self.branch = branch
        self.form = form
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
        _ branch: PolicyDigest, _ form: Form, at handle: TPMHandle
    ) -> NVPublicArea {
        NVPublicArea(
            index: handle, attributes: form.attributes,
            authPolicy: PolicyDigest.or(branches(branch))?.bytes ?? [],
            dataSize: form == .gate ? PresenceProtection.UserPIN.dataSize : UInt16(byteCount))
    }

    /// The branch of a key's policy that the PIN of this index satisfies.
    var userPIN: PresenceProtection.UserPIN {
        get throws(TPMError) {
            try PresenceProtection.UserPIN(
                index: index, resetPolicy: branch.bytes,
                attributes: PresenceProtection.UserPIN.onceAttributes)
        }
    }

    /// Derives the authValue from the PIN, or returns the stored one. The salt gives two indices
    /// with the same PIN different authValues.
    func authValue(_ pin: PIN?) throws(TPMError) -> AuthValue {
        switch (form, pin) {
        case (.gate, let pin?): return try userPIN.authValue(pin, boundTo: binding)
        case (.secretWithPIN, let pin?):
            return try PINHardening.authValue(
                pin, salt: Array(branch.bytes.prefix(PINHardening.saltBytes)), boundTo: nil)
        case (.secret(let stored), _):
            if let value = stored.withUnsafeBytes({ AuthValue($0) }) { return value }
        case (_, nil): break
        }
        throw TPMError(.unsupported, reason: "there is neither a PIN nor a stored authValue")
    }

    private static func branches(_ branch: PolicyDigest) -> [PolicyDigest] {
        [branch, PresenceProtection.UserPIN.changePolicy]
    }
}

extension RevocableSecret.Form {
    fileprivate var attributes: NVAttributes {
        switch self {
        case .secret: [.authRead, .authWrite, .noDA]
        case .secretWithPIN: [.authRead, .authWrite]
        case .gate: PresenceProtection.UserPIN.onceAttributes
        }
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
///         version     INTEGER (1),
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
            try DER.version(&nodes)
            let parentName = TPMName(bytes: try DER.octets(&nodes))
            let index = try NVPublicArea(unmarshalling: try DER.octets(&nodes))
            guard let branch = PolicyDigest(bytes: try DER.octets(&nodes)) else {
                throw ASN1Error.invalidASN1Object(reason: "a branch is not a digest")
            }
            let form: Form =
                if let authValue = try DER.octets(&nodes, tag: 0) {
                    .secret(authValue: authValue)
                } else {
                    Int(index.dataSize) == RevocableSecret.byteCount ? .secretWithPIN : .gate
                }
            return try RevocableSecret(
                parentName: parentName, index: index, branch: branch, form: form)
        }
    }

    func serialize(into coder: inout DER.Serializer, withIdentifier identifier: ASN1Identifier)
        throws
    {
        try coder.appendConstructedNode(identifier: identifier) { coder in
            try coder.serialize(DER.currentVersion)
            try coder.serialize(octets: parentName.bytes)
            try coder.serialize(octets: index.publicArea.marshalled)
            try coder.serialize(octets: branch.bytes)
            if case .secret(let authValue) = form {
                try coder.serialize(octets: authValue, tag: 0)
            }
        }
    }
}
