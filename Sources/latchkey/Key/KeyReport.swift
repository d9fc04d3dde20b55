import FoundationEssentials
import Latchkey

/// A key as it is shown. It has no secret.
struct KeyReport: Report {
    let id: String
    let label: Nullable<String>
    let policy: String
    let assurance: String
    let enforcedPresence: String
    let backend: String
    let createdAt: Date
    let publicKeyJWK: JWK

    init(_ key: HardwareKey) {
        id = key.id.rawValue
        label = Nullable(key.label)
        policy = key.policy.description
        assurance = key.assurance.description
        enforcedPresence = key.assurance.presence.rawValue
        backend = key.backend
        createdAt = key.createdAt
        publicKeyJWK = JWK(key.publicKey, kid: key.id)
    }

    var text: String {
        """
        Key:        \(id)
        Label:      \(label.value.map(printable) ?? "none")
        Policy:     \(policy)
        Assurance:  \(assurance), enforces \(enforcedPresence)
        Backend:    \(backend)
        Created:    \(createdAt.formatted(.iso8601))
        """
    }
}
