import FoundationEssentials
import Latchkey
import LatchkeyCredentials

/// Stores a token response.
func keepToken(_ answer: Data, of issuer: String, for clientID: String, in records: RecordContainer)
    async throws
{
    try await CredentialStore.bootstrap(CredentialStore(records: records))
    let token = try Token(
        response: answer, context: Token.Context(issuer: issuer, clientID: clientID))
    try Credential.store(token: token, tags: ["service": "purchase"])
}

func accessToken(for service: String) async throws -> String? {
    guard let credential = try Credential.find(where: { $0.tags["service"] == service }).first
    else { return nil }
    try await credential.refreshIfNeeded()
    return try await credential.token.accessToken
}
