import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List and revoke users' devices, also while servers run.",
        subcommands: [List.self, Revoke.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: """
                List a user's devices with their proof of hardware, oldest first, one line of JSON each.
                """)

        @OptionGroup var store: DatabaseOption

        @Option(help: "The user's name.")
        var user: String

        func run() async throws {
            let devices = try await UserDevices(store.open())
            for line in try await devices.lines(of: devices.user(user)) {
                print(try CanonicalJSON.text(line))
            }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Remove the key of a device, and end the sessions that can be on it.",
            discussion: """
                The device cannot log in or open its locker until its user sets it up again, after a login with the password. It \
                can have any session that began with a password, so all of these end. Those of other devices' keys stay, unless \
                all devices of the user are revoked.
                """)

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The ID of the device, as devices list prints it.")
        var id: String?

        @Option(help: "Revoke all devices of this user, and end all sessions.")
        var user: String?

        func validate() throws {
            guard (id == nil) != (user == nil) else {
                throw ValidationError("Give a device's ID or --user NAME.")
            }
        }

        func run() async throws {
            let devices = try await UserDevices(store.open())
            if let user {
                let count = try await devices.revocation.revokeAll(of: devices.user(user).id)
                print("Removed devices: \(count). All sessions of the user ended.")
            } else if let id {
                guard try await devices.revocation.revoke(id) else { throw NotFound("device", id) }
                print(
                    "Removed the device. Its sessions ended, and all of its user that began with a password."
                )
            }
        }
    }
}

/// An argument names a user or device that the database does not contain.
struct NotFound: Error, CustomStringConvertible {
    let description: String

    init(_ kind: String, _ name: String) { description = "There is no \(kind) \(name)." }
}

/// The devices of users, with biometric login and with the locker.
struct UserDevices: Sendable {
    /// A device, as `devices list` prints it.
    struct Line: Encodable, Sendable {
        let id: String
        let kind: DeviceKind
        let username: String
        let userID: String
        let model: String
        let name: String?
        /// In ISO 8601.
        let createdAt: String
        /// The proof of the hardware in words; nil without one.
        let proof: String?
    }

    let revocation: DeviceRevocation
    private let database: any SQLDatabase

    init(_ database: any SQLDatabase) throws {
        self.database = database
        revocation = DeviceRevocation(
            database: database,
            devices: DatabaseDeviceRegistry(database, project: IdentitySchema.project),
            // It opens no shares, so it needs no signing key file.
            enrolments: try LockerRegistry(
                database, project: IdentitySchema.project, shareKey: .random(count: 32)))
    }

    /// - Throws: ``NotFound``
    func user(_ name: String) async throws -> User {
        let user = try await database.read { try User.user(named: name, in: $0) }
        guard let user else { throw NotFound("user", name) }
        return user
    }

    /// A user's devices, those of each kind oldest first.
    func lines(of user: User) async throws -> [Line] {
        func line(
            _ id: String, _ kind: DeviceKind, _ info: DeviceInfo, _ createdAt: Date,
            _ proof: AttestationRecord?
        ) -> Line {
            Line(
                id: id, kind: kind, username: user.username, userID: user.id, model: info.model,
                name: info.name, createdAt: createdAt.formatted(.iso8601), proof: proof?.text)
        }
        return try await revocation.devices.devices(of: user.id).map {
            line($0.id, .biometric, $0.info, $0.createdAt, $0.attestation)
        }
            + revocation.enrolments.enrolments(of: user.id).map {
                line($0.id, .locker, $0.info, $0.createdAt, $0.deviceKey.attestation)
            }
    }
}
