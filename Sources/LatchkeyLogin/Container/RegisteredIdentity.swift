internal import Latchkey

/// A key as the server may list it.
struct RegisteredIdentity: Hashable, Sendable {
    let id: KeyID
    let userID: String
}
