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

/// The properties of a new key.
public struct KeyRequest: Hashable, Sendable {
    /// The identifier of the key.
    public var id: KeyID
    /// The user verification that a use of the key requires. It cannot change later.
    public var policy: AccessPolicy
    /// A name for people, 1 to 256 bytes of UTF-8 without control, format and other invisible
    /// characters; not unique. More than 64 characters are not useful.
    public var label: String?
    /// The text of the prompt for a new PIN.
    public var prompt: PromptContext
    /// The signature schemes that the hardware permits for the key. It cannot change later.
    public var form: KeyForm

    /// Creates a request, by default with a random identifier.
    public init(
        id: KeyID = .random(), policy: AccessPolicy, label: String? = nil, prompt: PromptContext,
        form: KeyForm = .fixedScheme
    ) {
        self.id = id
        self.policy = policy
        self.label = label
        self.prompt = prompt
        self.form = form
    }
}

extension KeyRequest {
    private static let maximumLabelBytes = 256

    /// Checks the label of a new or renamed key.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package static func check(label: String?) throws(KeystoreError) {
        guard let label, !label.isName(maximumBytes: maximumLabelBytes) else { return }
        throw KeystoreError(
            code: .invalidInput,
            reason:
                "the label is empty, too long, not in Unicode normalization form C, or contains a control or invisible character",
            recovery:
                "Choose a label of 1 to \(maximumLabelBytes) bytes with visible characters only, in Unicode normalization form C."
        )
    }
}

/// The signature schemes that the hardware permits for a key. Latchkey signs with ECDSA and SHA-256
/// in both forms.
public enum KeyForm: String, Hashable, Sendable {
    /// ECDSA with SHA-256 only.
    case fixedScheme = "fixed-scheme"
    /// Any scheme of the hardware. Some WebAuthn libraries (py_webauthn, python-fido2, webauthn-rs)
    /// refuse the attestation of a TPM key with a fixed scheme. Only a TPM creates keys of this
    /// form.
    case webAuthn = "webauthn"
}
