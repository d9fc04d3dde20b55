import LatchkeyCredentials

/// Redeems the code of the app's login, and stores the first token.
func storeFirstToken(
    code: String, iss: String?, pkce: PKCE, nonce: String, redirectURI: String, of clientID: String
) async throws -> Credential {
    let client = try OAuth2Client(issuer: "https://id.example", clientID: clientID)
    let token = try await client.exchange(
        authorizationCode: code, issuer: iss, codeVerifier: pkce.codeVerifier,
        redirectURI: redirectURI, nonce: nonce)
    return try Credential.store(token: token)
}
