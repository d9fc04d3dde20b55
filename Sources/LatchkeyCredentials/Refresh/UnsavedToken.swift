/// A refreshed token and the row in whose place it belongs.
struct UnsavedToken: Sendable {
    let token: Token
    let stored: StoredCredential
}
