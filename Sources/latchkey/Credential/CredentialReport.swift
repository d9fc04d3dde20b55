import FoundationEssentials
import Latchkey
import LatchkeyCredentials

/// A credential as it is shown. It has no secret.
struct CredentialReport: Report {
    let id: String
    let isDefault: Bool
    let tags: [String: String]
    let claims: [String: JSONValue]
    let issuer: String
    let clientID: String
    let policy: String
    let refreshable: Bool
    let issuedAt: Date
    let expiresAt: Nullable<Date>
    let createdAt: Date
    /// Whether the hardware can revoke its key; only in the report of `credential add`, for a policy that prompts.
    let isRevocable: Bool?

    private enum CodingKeys: String, CodingKey {
        case id, tags, claims, issuer, clientID, policy, refreshable, issuedAt, expiresAt, createdAt,
            isRevocable
        case isDefault = "default"
    }

    init(_ metadata: Token.Metadata, isDefault: Bool, isRevocable: Bool? = nil) {
        self.isRevocable = isRevocable
        id = metadata.id
        self.isDefault = isDefault
        tags = metadata.tags
        claims = metadata.claims
        issuer = metadata.server
        clientID = metadata.clientID
        policy = metadata.security.rawValue
        refreshable = metadata.isRefreshable
        issuedAt = metadata.issuedAt
        expiresAt = Nullable(metadata.expiresAt)
        createdAt = metadata.createdAt
    }

    var text: String {
        """
        Credential:  \(printable(id))\(isDefault ? " (the default)" : "")
        User:        \(printable(claims["sub"]?.string ?? "unknown"))
        Tags:        \(tags.isEmpty ? "none" : tagText)
        Server:      \(printable(issuer))
        Client:      \(printable(clientID))
        Policy:      \(policy)
        Ends:        \(expiresAt.value?.formatted(.iso8601) ?? "not said")
        Refreshes:   \(refreshable ? "yes" : "no")\(copies)
        """
    }

    private var copies: String {
        isRevocable == false
            ? "\nThis hardware cannot revoke the credential: a copy of the store still opens it after removal." : ""
    }

    /// The tags in one line, sorted.
    var tagText: String {
        printable(tags.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " "))
    }
}
