package import Latchkey

/// The answer of `Users`: for each user ID, in decimal, the number of the user's places in the TPM.
extension PresenceWire {
    package static func arguments(_ users: [UInt32: Int]) -> [BusValue] {
        let entries = users.map { ("\($0)", BusValue.uint32(UInt32($1))) }
        return [.dictionary(Dictionary(uniqueKeysWithValues: entries))]
    }

    /// - Returns: nil for an answer that is not valid.
    static func users(_ arguments: [BusValue]) -> [UInt32: Int]? {
        guard arguments.count == 1, let entries = arguments[0].dictionary else { return nil }
        var users: [UInt32: Int] = [:]
        for (text, value) in entries {
            guard let user = UInt32(text), let count = value.uint32 else { return nil }
            users[user] = Int(count)
        }
        return users
    }
}

extension SystemPresenceBroker {
    /// The users for whom the broker keeps something, with the number of their places in the TPM.
    /// Only for the administrator.
    package func users() async throws(KeystoreError) -> [UInt32: Int] {
        try await call(.users, [], PresenceWire.users)
    }

    /// Removes everything that the broker and the TPM keep for a user. The user's keys that need the
    /// PIN of the broker cannot be used again. Only for the administrator.
    package func forget(_ user: UInt32) async throws(KeystoreError) {
        try await call(.forget, [.uint32(user)]) { _ in () }
    }
}
