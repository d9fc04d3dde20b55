import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyVault

/// `latchkey vault update`.
struct VaultUpdateCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "update",
        abstract: "Replace the secret by the one that comes on standard input; what protects it stays.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> VaultReport {
        let vault = try await VaultSession(name, in: context).opened("update")
        let secret = try context.readSecret("update the vault").withUnsafeBytes { Data($0) }
        return VaultReport(try await vault.update(credentials: secret))
    }
}
