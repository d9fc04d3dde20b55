import ArgumentParser

/// `latchkey pin`.
struct PINCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Change the PIN of the container's keys; see how many attempts are left.",
        subcommands: [PINChangeCommand.self, PINStatusCommand.self])
}
