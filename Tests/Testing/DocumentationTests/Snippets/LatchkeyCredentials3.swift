import LatchkeyCredentials

/// The fields of a token request, and the context of its token.
func binding(
    of store: CredentialStore, issuer: String, clientID: String, tokenEndpoint: String
) async throws -> (fields: [String: String], context: Token.Context) {
    // nil if the server does not announce DPoP.
    let key = try await store.dpopKey(issuer: issuer, clientID: clientID)
    let proof = try await key?.proof(for: "POST", tokenEndpoint)
    return (
        proof.map { ["DPoP": $0] } ?? [:],
        Token.Context(issuer: issuer, clientID: clientID, boundTo: key)
    )
}
