import Hummingbird
import LatchkeyRelyingParty

extension TokenEndpoint {
    /// RFC 6749 section 4.1.3 with PKCE. A code that comes twice takes its grant down with it.
    func authorizationCode(_ form: FormFields, client: ClientConfiguration) async throws -> Response {
        let invalidCode = OAuthError.invalidGrant("invalid authorization code")
        let deviceInfo = try deviceInfo(form)
        guard let text = form["code"] else { throw OAuthError.invalidRequest("code is required") }
        guard let verifier = form["code_verifier"] else { throw OAuthError.invalidRequest("code verifier is required") }
        guard let code = try await services.grants.code(text), code.clientID == client.id else { throw invalidCode }
        guard form["redirect_uri"] == code.redirectURI else { throw OAuthError.invalidRequest("invalid redirect URI") }
        guard code.accepts(verifier: verifier) else { throw invalidCode }
        guard !code.isUsed, let user = try await services.users.user(id: code.userID), !user.isDisabled else {
            try await services.grants.revoke(grantID: code.grantID)
            throw invalidCode
        }
        let grant = grant(
            .password, id: code.grantID, user: user, client: client, scope: code.scope, authTime: code.authTime,
            deviceInfo: deviceInfo)
        let tokens = try await tokens(for: grant, user: user, client: client, nonce: code.nonce)
        guard try await services.grants.insert(grant, tokens: tokens, from: code) else { throw invalidCode }
        return try .json(tokens)
    }
}
