package import FoundationEssentials
package import Latchkey

/// A device that is enrolled for a user, with its keys.
package struct LockerEnrolment: Hashable, Sendable, Identifiable {
    /// The maximum number of easy-access keys. A change of the key adds the new one before it removes the old one.
    package static let maximumEasyAccessKeys = 2

    /// The SHA-256 thumbprint of the device key (RFC 7638 section 3), 43 characters of base64url: the device can
    /// compute it before it is enrolled. Older enrolments have a UUID.
    package let id: String
    /// The user who owns the device.
    package let userID: String
    /// The client that enrolled the device. Other clients cannot use the enrolment.
    package let clientID: String
    /// The key that authenticates the device, but not its user.
    package let deviceKey: LockerKey
    /// The keys that authenticate the device and its user, at most ``maximumEasyAccessKeys``, sorted by name.
    package let easyAccessKeys: [LockerKey]
    /// The device's description of itself at the enrolment.
    package let info: DeviceInfo
    /// The time of the enrolment.
    package let createdAt: Date
    /// The time when the device last got tokens or shares; nil for never.
    package let lastUsedAt: Date?

    /// - Parameter id: nil for the thumbprint of the device key.
    package init(
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

/// A named public key of an enrolled device.
package struct LockerKey: Hashable, Sendable {
    /// The name of the key, unique within its enrolment.
    package let kid: KeyID
    /// The public key.
    package let publicKey: PublicKey

    package init(kid: KeyID, publicKey: PublicKey) {
        self.kid = kid
        self.publicKey = publicKey
    }
}

/// A verified `enrol` assertion: the sender has the private key.
///
/// It does not identify a user. The session of the request does.
package struct LockerEnrolmentProof: Hashable, Sendable {
    /// The sender's public key.
    package let deviceKey: LockerKey
    /// The device's description of itself.
    package let info: DeviceInfo
}
