import Foundation
import HTTPTypes
import LatchkeyCredentials

/// Redeems the code of the app's login at the server's token endpoint, and stores the first token.
func storeFirstToken(code: String, verifier: String, redirectURI: String, clientID: String)
    async throws -> Credential
{
    var form = URLComponents()
    form.queryItems = [
        URLQueryItem(name: "grant_type", value: "authorization_code"),
        URLQueryItem(name: "code", value: code),
        URLQueryItem(name: "code_verifier", value: verifier),
        URLQueryItem(name: "redirect_uri", value: redirectURI),
        URLQueryItem(name: "client_id", value: clientID),
    ]
    let body = form.percentEncodedQuery?.replacing("+", with: "%2B") ?? ""
    let (response, answer) = try await CurlTransport().send(
        HTTPRequest(
            method: .post, scheme: "https", authority: "id.example", path: "/oauth2/token",
            headerFields: [.contentType: "application/x-www-form-urlencoded"]),
        body: Array(body.utf8))
    guard response.status == .ok else { throw URLError(.userAuthenticationRequired) }
    let token = try Token(
        response: Data(answer),
        context: Token.Context(issuer: "https://id.example", clientID: clientID))
    return try Credential.store(token: token)
}
