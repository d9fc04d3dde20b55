internal import Latchkey

/// The rows of a container, read without the hardware and without verification.
///
/// They decide only which state is shown and which operation is refused early. The rows that an
/// operation uses come from ``LoginRows``, which verifies them.
struct UnverifiedRows: Sendable {
    let records: RecordContainer

    /// The rows to show: nil if other hardware protects them.
    var shown: UnverifiedRows? {
        get async throws(KeystoreError) { try await records.isForeign() ? nil : self }
    }

    /// The last user's id.
    func lastUser() async throws(KeystoreError) -> String? {
        try await records.metadata(LoginRows.userID)?.attributes[LoginRows.owner]
    }

    /// The last user's name; nil without a stored session.
    func lastUserName() async throws(KeystoreError) -> String? {
        try await records.metadata(LoginRows.nameID)?.attributes[LoginRows.userName]
    }

    /// The enabled key.
    func key() async throws(KeystoreError) -> BiometricKey? {
        try await records.metadata(LoginRows.keyID).map(BiometricKey.init)
    }

    /// The key to which tokens are bound.
    func dpopKey() async throws(KeystoreError) -> HardwareKey? {
        try await records.metadata(LoginRows.dpopID)?.key
    }

    /// The key whose registration is not complete.
    func pending() async throws(KeystoreError) -> BiometricKey? {
        try await records.metadata(LoginRows.pendingID).map(BiometricKey.init)
    }

    /// The rows of keys that this server may have, oldest first.
    func identityRows(at server: LoginServer) async throws(KeystoreError) -> [Record] {
        try await records.list(LoginRows.identityKind).filter {
            LoginServer($0.attributes) == server
        }
    }

    /// The generation of the session's row, or nil without one.
    func sessionGeneration() async throws(KeystoreError) -> Int? {
        try await records.metadata(LoginRows.sessionID)?.generation
    }

    /// The rows of a login.
    struct Login: Sendable {
        /// The rows that an operation at a server uses or replaces.
        let rows: [Record]
        /// The rows of keys that a server may have.
        let identities: [Record]

        /// Whether a server may have a key that is neither enabled on this device nor being
        /// enabled.
        var mayHaveLeftovers: Bool {
            let keys = rows.compactMap(\.key?.id)
            return identities.compactMap(RegisteredIdentity.init).contains { !keys.contains($0.id) }
        }
    }

    /// Reads the rows of a login at one moment.
    func login() async throws(KeystoreError) -> Login {
        let (rows, identities) = try await records.metadata(
            [LoginRows.sessionID, LoginRows.keyID, LoginRows.pendingID, LoginRows.hintID],
            andAll: LoginRows.identityKind)
        return Login(rows: rows, identities: identities)
    }
}
