import ArgumentParser

/// `latchkey vault unlock`.
struct VaultUnlockCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Open the vault, to see that you can; it is locked again when the command ends.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> VaultReport {
        VaultReport(try await VaultSession(name, in: context).unlocked())
    }
}
