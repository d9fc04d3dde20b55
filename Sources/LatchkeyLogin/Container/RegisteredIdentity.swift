internal import Latchkey

/// A key as the server may list it.
struct RegisteredIdentity: Hashable, Sendable {
    let id: KeyID
    let userID: String

    init(id: KeyID, userID: String) {
        self.id = id
        self.userID = userID
    }

    /// - Returns: nil for a row that names no key or no user.
    init?(_ record: Record) {
        guard let id = record.attributes[LoginRows.keyName].flatMap(KeyID.init),
            let userID = record.attributes[LoginRows.owner]
        else { return nil }
        self.init(id: id, userID: userID)
    }
}
