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
    public let key: DevicePublicKey
    public let info: DeviceInfo
    public let createdAt: Date

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
