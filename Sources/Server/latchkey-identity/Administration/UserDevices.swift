import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

/// The devices of users, with biometric login and with the locker, and their sessions; and the
/// presence brokers' approval keys.
struct UserDevices: Sendable {
    /// A device, as `devices list` prints it. Times are in ISO 8601.
    struct Line: Encodable, Sendable {
        let id: String
        let kind: DeviceKind
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
        /// The Names of the approval keys whose approval opens the key; nil without one.
        let approvalKeys: [String]?
    }

    /// The approval key of a presence broker, as `devices list` prints it.
    struct Broker: Encodable, Sendable {
        /// The key's Name, 68 hexadecimal digits.
        let id: String
        let kind = "broker"
        /// The first enrolment.
        let createdAt: String
    }

    private let database: any SQLDatabase
    private let devices: DatabaseDeviceRegistry
    private let enrolments: LockerRegistry
    private let approvalKeys: DatabaseApprovalKeyRegistry

    init(_ database: any SQLDatabase) throws {
        self.database = database
        devices = DatabaseDeviceRegistry(database, project: IdentitySchema.project)
        // It opens no shares, so it needs no signing key file.
        enrolments = try LockerRegistry(
            database, project: IdentitySchema.project, shareKey: .random(count: 32))
        approvalKeys = DatabaseApprovalKeyRegistry(database)
    }

    /// The presence brokers' approval keys, oldest first.
    func brokers() async throws -> [Broker] {
        try await approvalKeys.all().map {
            Broker(
                id: AttestationConfiguration.text($0.name),
                createdAt: Date(timeIntervalSince1970: $0.enrolledAt).formatted(.iso8601))
        }
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

    /// Revokes a device (``DeviceRevocation``), or removes the approval key of this Name.
    ///
    /// - Returns: Whether there was such a device or approval key.
    func revoke(_ id: String) async throws -> Bool {
        if let name = AttestationConfiguration.name(id) {
            return try await approvalKeys.remove(name)
        }
        return try await revocation.revoke(id)
    }

    /// Revokes all devices of a user, and ends all sessions.
    ///
    /// - Returns: Their number; nil if there is no such user.
    func revokeAll(of username: String) async throws -> Int? {
        guard let user = try await user(username) else { return nil }
        return try await revocation.revokeAll(of: user.id)
    }

    private var revocation: DeviceRevocation {
        DeviceRevocation(database: database, devices: devices, enrolments: enrolments)
    }

    private func user(_ username: String) async throws -> User? {
        try await database.read { try User.user(named: username, in: $0) }
    }
}

extension UserDevices.Line {
    fileprivate init(
        _ id: String, _ kind: DeviceKind, of user: User, _ info: DeviceInfo, _ createdAt: Date,
        lastUsedAt: Date?, _ proof: AttestationRecord?
    ) {
        self.init(
            id: id, kind: kind, username: user.username, userID: user.id, model: info.model,
            name: info.name, createdAt: createdAt.formatted(.iso8601),
            lastUsedAt: lastUsedAt?.formatted(.iso8601), proof: proof?.text, level: proof?.level,
            approvalKeys: proof.flatMap(Self.names))
    }

    private static func names(_ proof: AttestationRecord) -> [String]? {
        let names = proof.approvalKeys.compactMap { Base64URL.decode($0) }
        return names.isEmpty ? nil : names.map(AttestationConfiguration.text)
    }
}
