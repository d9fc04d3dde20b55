public import FoundationEssentials

/// A key pair whose private half is in hardware, in the form in which it is stored.
///
/// It holds nothing secret: a TPM key's ``blob`` is wrapped by the TPM, a token key's only names the key. Any
/// ``Keystore`` of the same ``backend`` on the same hardware can use it; on other hardware it is refused with
/// `wrongDevice`.
public struct HardwareKey: Hashable, Sendable, Codable, Identifiable {
    /// The version of the stored form. It changes when a field changes its meaning.
    public static let currentVersion = 1

    /// The version of this form, ``currentVersion`` at its birth.
    public let version: Int
    public let id: KeyID
    /// The kind of keystore that made the key: `tpm` or `pkcs11`.
    public let backend: String
    /// Who must be there when it is used.
    public let policy: AccessPolicy
    /// What it is rooted in, and which presence the hardware enforces.
    public let assurance: AssuranceLevel
    /// Its public half.
    public let publicKey: PublicKey
    /// A name for people; not unique. Change it with ``Keystore/rename(_:to:for:authorizedBy:)``: a keystore may bind it to
    /// the key, and refuse a key with another label as damaged.
    public let label: String?
    /// Seconds precision is kept.
    public let createdAt: Date
    /// What the backend needs to find or load the key again. Opaque to everybody else.
    public let blob: Data
    /// What authorizes the key's use, where the hardware keeps that whole and can take it back; nil for any other key.
    public let authorization: SealedSecret?

    /// Whether the hardware can take the key back: ``Keystore/delete(_:)`` makes every copy of it worthless then, and a
    /// change of its PIN makes the old one worthless.
    public var isRevocable: Bool { authorization != nil }

    /// A key as its keystore made it. Only keystores call this.
    public init(
        id: KeyID,
        backend: String,
        policy: AccessPolicy,
        assurance: AssuranceLevel,
        publicKey: PublicKey,
        label: String?,
        createdAt: Date,
        blob: Data,
        authorization: SealedSecret? = nil
    ) {
        version = Self.currentVersion
        self.id = id
        self.backend = backend
        self.policy = policy
        self.assurance = assurance
        self.publicKey = publicKey
        self.label = label
        self.createdAt = Date(timeIntervalSince1970: createdAt.timeIntervalSince1970.rounded(.down))
        self.blob = blob
        self.authorization = authorization
    }

    /// The same key with another blob: what a change of PIN returns.
    public func replacing(blob: Data) -> HardwareKey {
        replacing(blob: blob, label: label)
    }

    /// The same key with another blob and another label: what ``Keystore/rename(_:to:for:authorizedBy:)`` returns. Only
    /// keystores call this.
    public func replacing(blob: Data, label: String?) -> HardwareKey {
        HardwareKey(
            id: id, backend: backend, policy: policy, assurance: assurance, publicKey: publicKey, label: label,
            createdAt: createdAt, blob: blob, authorization: authorization)
    }

    /// The same key without what authorizes it: something to know it by that signs nothing.
    package var withoutAuthorization: HardwareKey {
        HardwareKey(
            id: id, backend: backend, policy: policy, assurance: assurance, publicKey: publicKey, label: label,
            createdAt: createdAt, blob: blob)
    }
}
