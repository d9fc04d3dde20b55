public import FoundationEssentials

/// A key pair whose private half is in hardware, in its stored form.
///
/// It contains no secret. Any ``Keystore`` of the same ``backend`` on the same hardware can use it;
/// other hardware refuses it with `wrongDevice`.
public struct HardwareKey: Hashable, Sendable, Codable, Identifiable {
    /// The current version of the stored form. It changes if a field changes its meaning.
    package static let currentVersion = 1

    /// The version of this value: ``currentVersion`` when it was created.
    package let version: Int
    public let id: KeyID
    /// The kind of keystore that created the key: `tpm` or `pkcs11`.
    public let backend: String
    /// The user verification that a use of the key requires.
    public let policy: AccessPolicy
    /// The hardware that contains the key, and the user verification that it enforces.
    public let assurance: AssuranceLevel
    /// The public half.
    public let publicKey: PublicKey
    /// A name for people; not unique. Change it with ``Keystore/rename(_:to:for:authorizedBy:)``: a
    /// keystore can bind it to the key, and refuse a key with another label as damaged.
    public private(set) var label: String?
    /// When the key was created, in whole seconds.
    public let createdAt: Date
    /// The data with which the backend loads or finds the key: a private key wrapped by the TPM, or
    /// a reference to a token's key. Opaque to other code.
    package private(set) var blob: Data
    /// The authorization of the key's use, which the hardware can revoke; nil for a key that is not
    /// revocable.
    package private(set) var authorization: SealedSecret?

    /// Whether the hardware can revoke the key. ``Keystore/delete(_:)`` then disables every copy of
    /// it, and a PIN change disables the old PIN for every copy.
    public var isRevocable: Bool { authorization != nil }

    package init(
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

    /// The same key with another blob, as a PIN change returns it.
    package func replacing(blob: Data) -> HardwareKey {
        var key = self
        key.blob = blob
        return key
    }

    /// The same key with another blob and another label, as
    /// ``Keystore/rename(_:to:for:authorizedBy:)`` returns it.
    package func replacing(blob: Data, label: String?) -> HardwareKey {
        var key = replacing(blob: blob)
        key.label = label
        return key
    }

    /// The same key without its authorization: it identifies the key, and cannot sign.
    package var withoutAuthorization: HardwareKey {
        var key = self
        key.authorization = nil
        return key
    }
}

/// The identifier of a key: 8 to 64 characters of `A–Z a–z 0–9 _ -`.
///
/// A new key gets a random UUID in upper case. Authgear servers accept the same characters in a
/// JOSE `kid`, so the store, the token and the server use the same identifier.
public struct KeyID: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    public let rawValue: String

    /// - Returns: nil if `rawValue` is shorter than 8 or longer than 64 characters, or contains
    ///   another character.
    public init?(rawValue: String) {
        guard (8...64).contains(rawValue.utf8.count),
            rawValue.utf8.allSatisfy({ $0.isASCIILetterOrDigit || "_-".utf8.contains($0) })
        else { return nil }
        self.rawValue = rawValue
    }

    /// Creates a random identifier.
    public static func random() -> KeyID {
        KeyID(unchecked: UUID().uuidString)
    }

    public var description: String { rawValue }

    private init(unchecked rawValue: String) {
        self.rawValue = rawValue
    }
}
