import FoundationEssentials
import Latchkey
import LatchkeyPKCS11

/// A key as it is shown. It has no secret.
struct KeyReport: Report {
    let id: String
    let label: Nullable<String>
    let policy: String
    let assurance: String
    let enforcedPresence: String
    /// What counts wrong PINs: `device`, the hardware's own guard, or `user`, a count of the user's own.
    let pinProtection: Nullable<String>
    let backend: String
    /// Where a token's key is: a URI of RFC 7512 with the token and the key's `id`.
    let uri: Nullable<String>
    let createdAt: Date
    let publicKeyJWK: JWK
    /// Whether the hardware can take it back from every copy of the store.
    let isRevocable: Bool
    /// `locker` or `login` for a key that is a part of that, and no key of the user's own.
    let usedBy: String?

    init(_ key: HardwareKey, usedBy use: String? = nil) {
        usedBy = use
        id = key.id.rawValue
        label = Nullable(key.label)
        policy = key.policy.description
        assurance = key.assurance.description
        enforcedPresence = key.assurance.presence.rawValue
        pinProtection = Nullable(key.assurance.pinProtection?.rawValue)
        backend = key.backend
        uri = Nullable(key.backend == PKCS11Keystore.backend ? try? PKCS11Keystore.location(of: key) : nil)
        createdAt = key.createdAt
        publicKeyJWK = JWK(key.publicKey, kid: key.id)
        isRevocable = key.isRevocable
    }

    private var pinGuard: String {
        switch pinProtection.value {
        case "user": "a count of your own, which your finger or an administrator resets"
        case "device": "the hardware's own, which all its users share"
        default: "none: no PIN opens it"
        }
    }

    var text: String {
        """
        Key:        \(id)
        Label:      \(label.value.map(printable) ?? "none")
        Policy:     \(policy)
        Assurance:  \(assurance), enforces \(enforcedPresence)
        PIN guard:  \(pinGuard)
        Backend:    \(printable(backend))
        Revocable:  \(isRevocable ? "yes: no copy of the store works without the TPM's consent" : "no")
        Where:      \(uri.value.map(printable) ?? "wrapped by the TPM, in the store")
        Created:    \(createdAt.formatted(.iso8601))
        """
    }
}
