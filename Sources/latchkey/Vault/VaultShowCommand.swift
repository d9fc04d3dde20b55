import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyVault

/// `latchkey vault show`.
struct VaultShowCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Print the secret and nothing else. With --json, tell about the vault and keep the secret.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    func perform(in context: CommandContext) async throws -> VaultSecretReport {
        let vault = try await VaultSession(name, in: context).opened("show")
        return VaultSecretReport(vault: VaultReport(vault), secret: SecretBytes(try vault.credentials))
    }
}

/// A vault and its secret, which is in no JSON.
struct VaultSecretReport: Report {
    let vault: VaultReport
    let secret: SecretBytes

    var text: String { vault.text }
    var secretOutput: SecretBytes? { secret }

    func encode(to encoder: any Encoder) throws { try vault.encode(to: encoder) }
}
