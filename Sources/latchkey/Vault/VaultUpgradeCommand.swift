import ArgumentParser
import Latchkey
import LatchkeyVault

/// `latchkey vault upgrade`.
struct VaultUpgradeCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "upgrade",
        abstract: "Demand somebody's presence for reading the secret from now on.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String?

    @Option(
        help: """
            What the hardware asks for. (default: user-presence where your finger can be checked, else pin)
            """)
    var policy: LoginPolicyArgument?

    func perform(in context: CommandContext) async throws -> VaultReport {
        let session = try await VaultSession(name, in: context, protecting: true, under: policy?.policy)
        let vault = try await session.standing("upgrade", withBiometrics: false).upgrade()
        return VaultReport(vault, isRevocable: try await session.space.isStoredRevocably(key: session.key))
    }
}
