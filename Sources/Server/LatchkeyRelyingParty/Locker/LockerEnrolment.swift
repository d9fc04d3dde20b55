public import FoundationEssentials
public import Latchkey

/// A device that is enrolled for a user, with its keys: a row of `latchkey_locker_enrolment`.
///
/// A server gets it from ``LockerRequestVerifier``, which verified a signature of its keys, or as
/// one of a user's enrolments (``LockerRegistry/enrolments(of:)``), and creates it only to enrol a
/// device.
public struct LockerEnrolment: Hashable, Sendable, Identifiable {
    /// The maximum number of easy-access keys. A change of the key adds the new one before it
    /// removes the old one.
    public static let maximumEasyAccessKeys = 2

    /// The SHA-256 thumbprint of the device key (RFC 7638 section 3), 43 characters of base64url:
    /// the device can compute it before it is enrolled. Older enrolments have a UUID.
    public let id: String
    /// The user who owns the device.
    public let userID: String
    /// The client that enrolled the device. Other clients cannot use the enrolment.
    public let clientID: String
    /// The key that authenticates the device, but not its user.
    public let deviceKey: LockerKey
    /// The keys that authenticate the device and its user, at most ``maximumEasyAccessKeys``,
    /// sorted by name.
    public let easyAccessKeys: [LockerKey]
    /// The device's description of itself at the enrolment.
    public let info: DeviceInfo
    /// The time of the enrolment.
    public let createdAt: Date
    /// The time when the device last got tokens or shares; nil for never.
    public let lastUsedAt: Date?

    /// Creates an enrolment without easy-access keys.
    ///
    /// - Parameters:
    ///   - userID: The ID of the user in the server's own table.
    ///   - clientID: The OAuth client that enrols the device.
    ///   - deviceKey: The verified key that authenticates the device.
    ///   - info: The device's description of itself.
    ///   - createdAt: The time of the enrolment.
    public init(
        userID: String, clientID: String, deviceKey: LockerKey, info: DeviceInfo, createdAt: Date
    ) {
        self.init(
            userID: userID, clientID: clientID, deviceKey: deviceKey, easyAccessKeys: [],
            info: info,
            createdAt: createdAt)
    }

    /// - Parameters:
    ///   - id: nil for the thumbprint of the device key.
    ///   - easyAccessKeys: Sorted by name.
    package init(
        id: String? = nil, userID: String, clientID: String, deviceKey: LockerKey,
        easyAccessKeys: [LockerKey],
        info: DeviceInfo, createdAt: Date, lastUsedAt: Date? = nil
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

/// A named public key of an enrolled device: ES256, on the curve P-256. ``LockerRequestVerifier``
/// verified its signature.
public struct LockerKey: Hashable, Sendable {
    /// The name of the key, unique within its enrolment.
    public let kid: KeyID
    /// The public key.
    public let publicKey: PublicKey
    /// The proof that the key is in hardware, if the server verified one.
    package var attestation: AttestationRecord?

    package init(kid: KeyID, publicKey: PublicKey, attestation: AttestationRecord? = nil) {
        self.kid = kid
        self.publicKey = publicKey
        self.attestation = attestation
    }
}
