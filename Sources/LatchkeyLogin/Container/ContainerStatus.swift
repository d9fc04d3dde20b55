public import Latchkey

/// How a container stands, as far as this device knows: what a tool shows without a server, the hardware or a person.
public struct ContainerStatus: Hashable, Sendable {
    /// The container's name.
    public let container: String
    /// The id of the last user who logged in, or nil. Kept after a logout.
    public let lastUserID: String?
    /// The key with which somebody can log in, or nil.
    public let key: BiometricKey?
    /// Whether a session is stored. A session in another program's memory does not count.
    public let sessionState: SessionState
    /// The server and client to which the stored session and key belong, not verified. nil when neither is stored, or when
    /// an earlier version stored them without a server.
    public let server: LoginServer?

    /// Whether the last user who logged in has biometric login enabled on this device.
    public var isBiometricEnabled: Bool {
        guard let key else { return false }
        return key.userID == lastUserID
    }

    /// Reads it.
    ///
    /// - Throws: `KeystoreError`; `damaged` when a row can't be read.
    public init(of records: RecordContainer) async throws(KeystoreError) {
        let metadata = LoginMetadata(records: records)
        container = records.name
        lastUserID = try await metadata.lastUser()
        key = try await metadata.key()
        sessionState = try await metadata.sessionGeneration() == nil ? .noSession : .authenticated
        server = try await metadata.login().lazy.compactMap { LoginServer($0.attributes) }.first
    }
}
