import FoundationEssentials
import Latchkey
import LatchkeyRelyingParty

/// The devices of users, with biometric login and with the locker, and their sessions.
struct UserDevices: Sendable {
    /// A device, as `devices list` prints it. Times are in ISO 8601.
    struct Line: Encodable, Sendable {
        enum Kind: String, Encodable, Sendable {
            case biometric, locker
        }

        let id: String
        let kind: Kind
        let username: String
        let userID: String
        let model: String
        let name: String?
        let createdAt: String
        /// The last login that is still valid, or the last use of the locker; nil if there is none.
        let lastUsedAt: String?
        /// The proof of the hardware in words; nil without one.
        let proof: String?
        /// The lowest requirement that the proof met; nil without a proof.
        let level: String?
    }

    private let database: any SQLDatabase
    private let devices: DatabaseDeviceRegistry
    private let enrolments: LockerRegistry

    init(_ database: any SQLDatabase, project: String) async throws {
        self.database = database
        devices = DatabaseDeviceRegistry(database, project: project)
        enrolments = try await LockerServices.registry(
            database, project: project, SecretStore(database: database, cipher: nil))
    }

    /// A user's devices, oldest first; nil if there is no such user.
    func lines(of username: String) async throws -> [Line]? {
        guard let user = try await user(username) else { return nil }
        var lines: [Line] = []
        for device in try await devices.devices(of: user.id) {
            let last = try await database.read {
                try $0.row(
                    "SELECT max(auth_time) AS last FROM offline_grant WHERE device_id = \(device.id)"
                )?.optionalReal("last")
            }
            lines.append(
                Line(
                    device.id, .biometric, of: user, device.info, device.createdAt,
                    lastUsedAt: last.map { Date(timeIntervalSince1970: $0) }, device.attestation))
        }
        return try await lines
            + enrolments.enrolments(of: user.id).map {
                Line(
                    $0.id, .locker, of: user, $0.info, $0.createdAt, lastUsedAt: $0.lastUsedAt,
                    $0.deviceKey.attestation)
            }
    }

    /// Removes the key of a device and ends its sessions.
    ///
    /// - Returns: Whether there was such a device.
    func revoke(_ id: String) async throws -> Bool {
        try await database.write { [devices, enrolments] database in
            let wasDevice = try devices.remove(id: id, in: database)
            return try enrolments.remove(id: id, in: database) || wasDevice
        }
    }

    /// Revokes all devices of a user.
    ///
    /// - Returns: Their number; nil if there is no such user.
    func revokeAll(of username: String) async throws -> Int? {
        guard let lines = try await lines(of: username) else { return nil }
        var count = 0
        for line in lines where try await revoke(line.id) { count += 1 }
        return count
    }

    private func user(_ username: String) async throws -> User? {
        try await database.read { try User.user(named: username, in: $0) }
    }
}

extension UserDevices.Line {
    fileprivate init(
        _ id: String, _ kind: Kind, of user: User, _ info: DeviceInfo, _ createdAt: Date,
        lastUsedAt: Date?, _ proof: AttestationRecord?
    ) {
        self.init(
            id: id, kind: kind, username: user.username, userID: user.id, model: info.model,
            name: info.name, createdAt: createdAt.formatted(.iso8601),
            lastUsedAt: lastUsedAt?.formatted(.iso8601), proof: proof?.text, level: proof?.level)
    }
}
