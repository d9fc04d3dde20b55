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
