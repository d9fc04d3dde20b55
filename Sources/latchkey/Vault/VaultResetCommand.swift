import ArgumentParser
import LatchkeyVault

/// `latchkey vault reset`.
struct VaultResetCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "reset",
        abstract: "Discard the vault, readable or not. Takes nobody, and can't be undone.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> RevokingReport<VaultReport> {
        let session = try await VaultSession(name, in: context)
        let report = VaultReport(try await session.vault.reset())
        return await context.afterRevoking(report, in: session.space.records)
    }
}
