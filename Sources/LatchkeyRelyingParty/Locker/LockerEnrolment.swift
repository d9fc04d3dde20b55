public import FoundationEssentials
internal import Latchkey

/// A device that is enrolled for a user, with the keys that it may sign with.
public struct LockerEnrolment: Hashable, Sendable, Identifiable {
    /// How many easy-access keys an enrolment has at most: a change adds the new one before it removes the old one.
    public static let maximumEasyAccessKeys = 2

    /// The thumbprint of the device key with SHA-256 (RFC 7638 section 3): 43 characters of base64url, which the device
    /// knows before the server has ever heard of it. Those of before it was so have a UUID.
    public let id: String
    /// The user whose device it is.
    public let userID: String
    /// The client that enrolled it. The enrolment is worth nothing to any other.
    public let clientID: String
    /// The key that stands for the device itself, whoever uses it.
    public let deviceKey: LockerKey
    /// The keys that stand for the device and its user, at most ``maximumEasyAccessKeys``, in the order of their names.
    public let easyAccessKeys: [LockerKey]
    /// What the device said about itself when it was enrolled.
    public let info: DeviceInfo
    /// When it was made.
    public let createdAt: Date
    /// When the device last got tokens or shares; nil for never.
    public let lastUsedAt: Date?

    /// An enrolment as a registry keeps it.
    ///
    /// - Parameter id: nil for the name that the device key gives it.
    public init(
        id: String? = nil, userID: String, clientID: String, deviceKey: LockerKey,
        easyAccessKeys: [LockerKey] = [], info: DeviceInfo, createdAt: Date, lastUsedAt: Date? = nil
    ) {
        self.id = id ?? deviceKey.publicKey.thumbprint
        self.userID = userID
        self.clientID = clientID
        self.deviceKey = deviceKey
        self.easyAccessKeys = easyAccessKeys
        self.info = info
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
    }
}
