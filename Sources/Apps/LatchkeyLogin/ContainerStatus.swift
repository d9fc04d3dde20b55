public import Latchkey

/// The state of a container on this device. Reading it does not prompt or use the network. For a
/// store of other hardware, all values are empty.
public struct ContainerStatus: Hashable, Sendable {
    /// The id of the last user who logged in, or nil. Kept after a logout.
    public let lastUserID: String?
    /// The name of that user at the server: the preferred user name, otherwise the email address or
    /// the full name. nil if the server reported none, for a session in memory, and after the
    /// session's end: a logout deletes it from the store, where it is plain text.
    public let lastUserName: String?
    /// The key for biometric login, or nil.
    public let key: BiometricKey?
    /// Whether a session is stored. A session in another program's memory does not count.
    public let sessionState: SessionState
    /// The server and client that the stored session and key belong to, not verified. nil if
    /// neither is stored.
    public let server: LoginServer?

    /// Whether biometric login is enabled on this device for the last user who logged in.
    public var isBiometricEnabled: Bool {
        key.map { $0.userID == lastUserID } ?? false
    }

    /// Reads the state.
    ///
    /// - Throws: `KeystoreError`; `damaged` when a row can't be read.
    public init(of records: RecordContainer) async throws(KeystoreError) {
        guard let rows = try await UnverifiedRows(records: records).shown else {
            (lastUserID, lastUserName, key, sessionState, server) =
                (nil, nil, nil, .noSession, nil)
            return
        }
        lastUserID = try await rows.lastUser()
        lastUserName = try await rows.lastUserName()
        key = try await rows.key()
        sessionState = try await rows.sessionGeneration() == nil ? .noSession : .authenticated
        server = try await rows.login().rows.lazy.compactMap { LoginServer($0.attributes) }.first
    }
}
