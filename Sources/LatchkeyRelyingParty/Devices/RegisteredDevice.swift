public import FoundationEssentials
public import Latchkey

/// A device's key, registered for a user: a biometric identity.
public struct RegisteredDevice: Hashable, Sendable, Identifiable {
    /// A random UUID in lower case. Unlike ``kid`` it is the server's own name.
    public let id: String
    /// The name of the key, unique in a project.
    public let kid: KeyID
    /// The user whose device it is.
    public let userID: String
    /// The key that it signs with.
    public let key: DevicePublicKey
    /// What it says of itself.
    public let info: DeviceInfo
    /// When it was registered.
    public let createdAt: Date

    /// A device as a registry keeps it.
    public init(
        id: String = UUID().uuidString.lowercased(), kid: KeyID, userID: String, key: DevicePublicKey, info: DeviceInfo,
        createdAt: Date
    ) {
        self.id = id
        self.kid = kid
        self.userID = userID
        self.key = key
        self.info = info
        self.createdAt = createdAt
    }
}
