import ArgumentParser

/// `latchkey vault status`.
struct VaultStatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how the vault stands. Needs no hardware and nobody.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> VaultReport {
        VaultReport(try await VaultSession(name, in: context).vault)
    }
}
