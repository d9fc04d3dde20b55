import FoundationEssentials
import LatchkeyRelyingParty

/// What a user's device has a key for: biometric login, or a locker.
enum DeviceKind: String, CaseIterable, Encodable, Sendable {
    case biometric, locker
}

/// The revocation of a device that its user may have lost, on a settings page or by an
/// administrator. Afterwards the device holds nothing that the server accepts.
///
/// A session that began with a password belongs to no device, and neither does one of a browser:
/// any of them can be on the lost device, which could set up another key with it. So all of the
/// user end, and the sessions of the device's own keys. Those of other devices' keys stay: each
/// began with a signature of that device.
///
/// A device that gives up its own key ends the sessions of this key only
/// (`SessionEndpoints`, `LockerEndpoints`).
struct DeviceRevocation: Sendable {
    let database: any SQLDatabase
    let devices: DatabaseDeviceRegistry
    let enrolments: LockerRegistry

    /// Removes the key of a device, or an enrolment, of any user, for an administrator.
    ///
    /// - Returns: Whether there was such a device.
    func revoke(_ id: String) async throws -> Bool {
        try await database.write { try remove(id, DeviceKind.allCases, for: nil, in: $0) }
    }

    /// Removes a device of one kind for its user. The other kind can need more of a session.
    ///
    /// - Parameter own: The browser's session that requests it. It stays, with the session of its
    ///   app.
    /// - Returns: Whether the user had such a device; nil if the browser's session has ended.
    func revoke(
        _ id: String, _ kind: DeviceKind, requestedIn own: WebSessionStore.Session
    ) async throws -> Bool? {
        try await database.write { database in
            guard try own.lock(in: database) else { return nil }
            return try remove(id, [kind], for: own, in: database)
        }
    }

    private func remove(
        _ id: String, _ kinds: [DeviceKind], for own: WebSessionStore.Session?,
        in database: any SQLConnection
    ) throws -> Bool {
        for kind in kinds {
            // The removal ends the sessions of the keys, and waits for logins with them.
            let user =
                switch kind {
                case .biometric: try devices.remove(id: id, of: own?.user.id, in: database)
                case .locker: try enrolments.remove(id: id, of: own?.user.id, in: database)
                }
            guard let user else { continue }
            try Self.endSessions(
                of: user, where: "device_id IS NULL AND enrolment_id IS NULL", except: own,
                in: database)
            return true
        }
        return false
    }

    /// Removes all keys and enrolments of a user, and ends all sessions.
    ///
    /// - Returns: The number of devices and enrolments.
    func revokeAll(of userID: String) async throws -> Int {
        try await database.write { [devices, enrolments] database in
            func remove() throws -> Int {
                try devices.removeAll(of: userID, in: database)
                    + enrolments.removeAll(of: userID, in: database)
            }
            let count = try remove()
            try Self.endSessions(of: userID, where: "TRUE", except: nil, in: database)
            // Those that a session set up while this transaction waited for it.
            return try count + remove()
        }
    }

    /// Ends the sessions of a user's browsers and those grants that meet a condition.
    ///
    /// A code can be exchanged for a grant. In this order, the last statement waits for the
    /// exchanges that have begun, and ends what they stored.
    private static func endSessions(
        of userID: String, where condition: SQLText, except own: WebSessionStore.Session?,
        in database: any SQLConnection
    ) throws {
        let other: SQLText = own.map { "digest <> \($0.digest)" } ?? "TRUE"
        let foreign: SQLText = own?.grantID.map { "id <> \($0)" } ?? "TRUE"
        try database.execute([
            "DELETE FROM web_session WHERE user_id = \(userID) AND grant_id IS NULL AND \(other)",
            "DELETE FROM authorization_code WHERE user_id = \(userID)",
            "DELETE FROM offline_grant WHERE user_id = \(userID) AND \(condition) AND \(foreign)",
        ])
    }
}
