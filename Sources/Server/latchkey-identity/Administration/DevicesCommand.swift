import ArgumentParser

struct DevicesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "devices", abstract: "List and revoke users' devices, also while servers run.",
        subcommands: [List.self, Revoke.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List devices with their proof of hardware, one line of JSON each.")

        @OptionGroup var store: DatabaseOption

        @Option(help: "Only the devices of this user.")
        var user: String?

        func run() async throws { try printLines(await store.administration().devices(of: user)) }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke", abstract: "Remove the key of a device, and end its sessions.",
            discussion:
                "The device cannot log in or open its locker until its user sets it up again.")

        @OptionGroup var store: DatabaseOption

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
            let administration = try await store.administration()
            if let user {
                guard let count = try await administration.revokeAll(of: user) else {
                    throw NotFound("user", user)
                }
                print(count)
            } else if let id {
                guard try await administration.revoke(id: id) > 0 else {
                    throw NotFound("device", id)
                }
                print(1)
            }
        }
    }
}
