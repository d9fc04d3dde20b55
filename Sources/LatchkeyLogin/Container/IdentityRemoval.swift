internal import Latchkey

/// What it takes to remove a user's identities from the server.
struct IdentityRemoval: Sendable {
    let server: IdentityServer
    let endpoint: Endpoint
    let userID: String
    let access: AccessToken
}
