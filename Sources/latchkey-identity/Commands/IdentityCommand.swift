import ArgumentParser

@main
struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-identity",
        abstract: "A small identity server for development and tests.",
        subcommands: [ServeCommand.self, UsersCommand.self])
}
