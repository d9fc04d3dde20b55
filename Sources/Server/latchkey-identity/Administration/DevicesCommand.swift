import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyRelyingParty

struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List and revoke users' devices, also while servers run.",
        subcommands: [List.self, Revoke.self])

    struct Options: ParsableArguments {
        @OptionGroup var store: DatabaseOption

        @Option(help: "The member project of the server's configuration.")
        var project = ServerConfiguration(clients: []).project

        func devices() async throws -> UserDevices {
            try await UserDevices(store.open(), project: project)
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List a user's devices with their proof of hardware, one line of JSON each.")

        @OptionGroup var options: Options

        @Option(help: "The user's name.")
        var user: String

        func run() async throws {
            guard let lines = try await options.devices().lines(of: user) else {
                throw NotFound("user", user)
            }
            for line in lines { print(try CanonicalJSON.text(line)) }
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke", abstract: "Remove the key of a device, and end its sessions.",
            discussion:
                "The device cannot log in or open its locker until its user sets it up again.")

        @OptionGroup var options: Options

        @Argument(help: "The device's ID.")
        var id: String?

        @Option(help: "Revoke all devices of this user.")
        var user: String?

        func validate() throws {
            guard (id == nil) != (user == nil) else {
                throw ValidationError("Give a device's ID or --user NAME.")
            }
        }

        func run() async throws {
            let devices = try await options.devices()
            if let user {
                guard let count = try await devices.revokeAll(of: user) else {
                    throw NotFound("user", user)
                }
                print(count)
            } else if let id {
                guard try await devices.revoke(id) else { throw NotFound("device", id) }
                print(1)
            }
        }
    }
}

/// An argument names a user or device that the database does not contain.
struct NotFound: Error, CustomStringConvertible {
    let description: String

    init(_ kind: String, _ name: String) { description = "There is no \(kind) \(name)." }
}
