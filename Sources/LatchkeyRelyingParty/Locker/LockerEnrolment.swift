public import FoundationEssentials

/// A device that is enrolled for a user, with the keys that it may sign with.
public struct LockerEnrolment: Hashable, Sendable, Identifiable {
    /// How many easy-access keys an enrolment has at most: a change adds the new one before it removes the old one.
    public static let maximumEasyAccessKeys = 2

    /// A random UUID in lower case: 36 characters of the alphabet of a `KeyID`.
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

    /// An enrolment as a registry keeps it.
    public init(
        id: String = UUID().uuidString.lowercased(), userID: String, clientID: String, deviceKey: LockerKey,
        easyAccessKeys: [LockerKey] = [], info: DeviceInfo, createdAt: Date
    ) {
        self.id = id
        self.userID = userID
        self.clientID = clientID
        self.deviceKey = deviceKey
        self.easyAccessKeys = easyAccessKeys
        self.info = info
        self.createdAt = createdAt
    }
}
