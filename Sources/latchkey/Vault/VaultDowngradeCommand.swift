import ArgumentParser
import LatchkeyVault

/// `latchkey vault downgrade`.
struct VaultDowngradeCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "downgrade",
        abstract: "Let this machine open the vault without you. Takes you to open it once more.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> RevokingReport<VaultReport> {
        let session = try await VaultSession(name, in: context)
        _ = try session.standing("downgrade", withBiometrics: true)
        let report = VaultReport(try await session.opened("downgrade").downgrade())
        return await context.afterRevoking(report, in: session.space.records)
    }
}
