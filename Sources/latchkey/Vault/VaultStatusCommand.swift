import ArgumentParser
import LatchkeyVault

/// `latchkey vault status`.
struct VaultStatusCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how the vault stands. Needs no hardware and nobody.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> VaultReport {
        let session = try await VaultSession(name, in: context)
        return VaultReport(session.vault, isRevocable: try? await session.space.isStoredRevocably(key: session.key))
    }
}
