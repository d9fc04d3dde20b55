internal import FoundationEssentials
package import Latchkey

/// An enrolment of this device for one user, with its secrets unsealed.
struct Enrolment: Sendable {
    /// The enrolment's id at the server: the SHA-256 thumbprint of the device's key (RFC 7638
    /// section 3), 43 characters of base64url.
    let id: String
    let issuer: String
    let clientID: String
    /// The user's id at the server.
    let userID: String
    /// Whether the server stores shares of the level keys.
    let isShared: Bool
    /// The device's key. It signs without user verification.
    let deviceKey: HardwareKey
    var easyAccess: EasyAccess?
    let wraps: LevelWraps
    /// The protection class of the two secrets below, one of ``baseClasses(of:)``.
    let baseClass: ProtectionClass
    /// The key of the level `base`, and the device's part of the keys of `background` and `active`:
    /// 32 bytes each.
    let baseKey: LevelKey
    let deviceSecret: SecretBytes
    /// The generation of the row; 0 before it is stored.
    var generation = 0

    /// Easy access: the key that signs for the user's secret.
    struct EasyAccess: Sendable {
        let key: HardwareKey
        /// The protection class of the key of the level `offline`, with the same policy as ``key``:
        /// one of ``offlineClasses(of:)``.
        let offlineClass: ProtectionClass
    }

    // The names of classes are random, so that an attacker can't create a class with a known key in
    // advance.

    /// The classes of the key of the level `base`, which open without user verification.
    static func baseClasses(of id: String) -> ClassFamily { ClassFamily("locker.base", of: id) }

    /// The classes of the key of the level `offline`: one for each secret. The secret belongs to
    /// the locker, even if the container has another PIN.
    static func offlineClasses(of id: String) -> ClassFamily {
        ClassFamily("locker.offline", of: id).withOwnPIN
    }

    /// Whether the text has 8 to 64 characters of base64url.
    static func isValid(id: String) -> Bool { KeyID(rawValue: id) != nil }

    /// All classes of an enrolment.
    static func classes(of id: String) -> [ClassFamily] {
        [baseClasses(of: id), offlineClasses(of: id)]
    }
}

/// The unencrypted part of a stored enrolment. Reading it does not use the server or the hardware
/// and does not prompt.
///
/// The values are not verified. Use them for display and to refuse a call early, not to allow one.
package struct StoredEnrolment: Hashable, Sendable {
    /// The enrolment's id at the server.
    package let id: String
    /// The server's address, as configured at enrolment.
    package let issuer: String
    /// The OAuth client id, as configured at enrolment.
    package let clientID: String
    /// The user's id at the server: the `sub` of its tokens.
    package let userID: String
    /// Whether the server stores shares of the level keys. Without shares, cryptography does not
    /// bind data to sessions.
    package let hasLevelShares: Bool
    /// Whether easy access is enabled.
    package let isEasyAccessEnabled: Bool
    /// Whether the hardware can revoke the keys of `base` and `offline` and the key of easy access:
    /// see ``Locker/isStoredRevocably()``.
    package let isRevocable: Bool

    /// Reads the stored enrolment.
    ///
    /// - Returns: nil if this device is not enrolled.
    /// - Throws: `KeystoreError`; `damaged` when the row can't be read.
    package init?(of records: RecordContainer) async throws(KeystoreError) {
        guard let row = try await records.metadata(LockerRows.enrolmentID) else { return nil }
        let attributes = row.attributes
        guard let id = attributes["enrolment"], Enrolment.isValid(id: id),
            let issuer = attributes["issuer"],
            let clientID = attributes["client"], let userID = attributes["user"]
        else { throw .damaged("the enrolment's row lacks values or has invalid ones") }
        isRevocable = try await LockerRows(records: records).isRevocable(attributes) ?? false
        self.id = id
        self.issuer = issuer
        self.clientID = clientID
        self.userID = userID
        hasLevelShares = attributes["shared"] == "true"
        isEasyAccessEnabled = attributes["easyAccess"] != nil
    }
}
