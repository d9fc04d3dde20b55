/// What a finished login in the browser leaves to be done: the code is exchanged with the verifier, for the same redirect
/// URI, and the ID token must have the nonce.
package struct AuthorizationGrant: Hashable, Sendable {
    package let code: String
    package let codeVerifier: String
    package let redirectURI: String
    package let nonce: String
}
