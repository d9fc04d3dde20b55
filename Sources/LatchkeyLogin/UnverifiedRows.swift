internal import Latchkey

/// The rows of a container, read without the hardware and without verification.
///
/// They decide only which state is shown and which operation is refused early. The rows that an operation uses come from
/// ``LoginRows``, which verifies them.
struct UnverifiedRows: Sendable {
    let records: RecordContainer

    /// The last user's id.
    func lastUser() async throws(KeystoreError) -> String? {
        try await records.metadata(LoginRows.userID)?.attributes[LoginRows.owner]
    }

    /// The enabled key.
    func key() async throws(KeystoreError) -> BiometricKey? {
        try await records.metadata(LoginRows.keyID).map(BiometricKey.init)
    }

    /// The key whose registration is not complete.
    func pending() async throws(KeystoreError) -> BiometricKey? {
        try await records.metadata(LoginRows.pendingID).map(BiometricKey.init)
    }

    /// The rows of keys that this server may have, oldest first.
    func identityRows(at server: LoginServer) async throws(KeystoreError) -> [Record] {
        try await records.list(LoginRows.identityKind).filter { LoginServer($0.attributes) == server }
    }

    /// The generation of the session's row, or nil without one.
    func sessionGeneration() async throws(KeystoreError) -> Int? {
        try await records.metadata(LoginRows.sessionID)?.generation
    }

    /// The rows that an operation at a server uses or replaces.
    func login() async throws(KeystoreError) -> [Record] {
        var login: [Record] = []
        for id in [LoginRows.sessionID, LoginRows.keyID, LoginRows.pendingID, LoginRows.hintID] {
            if let record = try await records.metadata(id) { login.append(record) }
        }
        return login
    }

    /// The rows that a version without server names stored.
    func unboundRows() async throws(KeystoreError) -> [Record] {
        try await (login() + records.list(LoginRows.identityKind)).filter { LoginServer($0.attributes) == nil }
    }
}
