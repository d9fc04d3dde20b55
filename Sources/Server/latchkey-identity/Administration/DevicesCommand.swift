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
                List a user's devices with their proof of hardware, or without a user the approval keys of presence brokers, \
                one line of JSON each.
                """)

        @OptionGroup var store: DatabaseOption

        @Option(help: "The user's name.")
        var user: String?

        func run() async throws {
            let devices = try await UserDevices(store.open())
            guard let user else {
                for line in try await devices.brokers() { print(try CanonicalJSON.text(line)) }
                return
            }
            guard let lines = try await devices.lines(of: user) else {
                throw NotFound("user", user)
            }
            for line in lines { print(try CanonicalJSON.text(line)) }
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

                After the removal of a presence broker's approval key, keys that need its approval do not meet a requirement.
                """)

        @OptionGroup var store: DatabaseOption

        @Argument(help: "The ID of the device, or of the approval key, as devices list prints it.")
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
                guard let count = try await devices.revokeAll(of: user) else {
                    throw NotFound("user", user)
                }
                print("Removed devices: \(count). All sessions of the user ended.")
            } else if let id {
                guard try await devices.revoke(id) else { throw NotFound("device", id) }
                print(
                    AttestationConfiguration.name(id) == nil
                        ? "Removed the device. Its sessions ended, and all of its user that began with a password."
                        : "Removed the approval key. Keys that need its approval meet no requirement, and their sessions end."
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
