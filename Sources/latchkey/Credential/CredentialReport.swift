import FoundationEssentials
import Latchkey
import LatchkeyCredentials

/// What is known of a credential; never a token.
struct CredentialReport: Report {
    let id: String
    let tags: [String: String]
    let claims: [String: JSONValue]
    let issuer: String
    let clientID: String
    let policy: String
    let isDefault: Bool
    let createdAt: Date

    init(_ credential: Credential) throws {
        let metadata = try credential.metadata
        id = metadata.id
        tags = metadata.tags
        claims = metadata.claims
        issuer = metadata.context.issuer
        clientID = metadata.context.clientID
        policy = metadata.security.description
        createdAt = metadata.createdAt
        isDefault = try credential.store.defaultCredential() == credential
    }

    var text: String {
        var lines = [
            "Credential:  \(id)\(isDefault ? " (default)" : "")",
            "Server:      \(printable(issuer)), client \(printable(clientID))",
            "User:        \(claims["sub"]?.string.map(printable) ?? "unknown")",
            "Opened by:   \(policy == AccessPolicy.none.description ? "this machine" : policy)",
        ]
        if !tags.isEmpty { lines.append("Tags:        \(printable(tagText))") }
        return lines.joined(separator: "\n")
    }

    /// One line of a list.
    var line: String {
        let subject = claims["sub"]?.string.map(printable) ?? "-"
        return "\(id)  \(isDefault ? "*" : " ")  \(subject)  \(printable(issuer))  \(printable(tagText))"
    }

    private var tagText: String {
        tags.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    }
}
