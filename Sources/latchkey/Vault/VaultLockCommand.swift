import ArgumentParser

/// `latchkey vault lock`.
struct VaultLockCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Lock the vault. Between commands it always is.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> VaultReport {
        VaultReport(try await VaultSession(name, in: context).locked())
    }
}
