import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import Logging

/// The requests that only the administrator may make.
extension PresenceService {
    /// Resets the count of a user's wrong PINs.
    func resetPIN(_ requester: BusRequester, _ arguments: [BusValue])
        async throws(KeystoreError) -> [BusValue]
    {
        guard requester.user == 0 else {
            throw KeystoreError(
                code: .refused, reason: "only the administrator can reset a PIN",
                recovery: "Use your finger, or ask an administrator.")
        }
        let user = try Self.user(arguments)
        try await authority.resetPIN(of: user)
        log.notice("the administrator reset a PIN", metadata: ["uid": "\(user)"])
        return []
    }

    /// The users for whom the broker keeps something, with the number of their indices.
    func users(for requester: BusRequester) throws(KeystoreError) -> [UInt32: Int] {
        guard requester.user == 0 else { throw Self.notAdministrator }
        return authority.users
    }

    /// Removes everything that is kept for a user, who may have no account any more.
    func forget(_ requester: BusRequester, _ arguments: [BusValue])
        async throws(KeystoreError) -> [BusValue]
    {
        guard requester.user == 0 else { throw Self.notAdministrator }
        let user = try Self.user(arguments)
        try await authority.forget(user)
        log.notice("the administrator removed a user", metadata: ["uid": "\(user)"])
        return []
    }

    private static func user(_ arguments: [BusValue]) throws(KeystoreError) -> UInt32 {
        guard arguments.count == 1, let user = arguments[0].uint32 else {
            throw .invalidInput("the user id is missing")
        }
        return user
    }

    private static var notAdministrator: KeystoreError {
        KeystoreError(
            code: .refused, reason: "only the administrator can see and remove the broker's users",
            recovery: "Ask an administrator.")
    }
}
