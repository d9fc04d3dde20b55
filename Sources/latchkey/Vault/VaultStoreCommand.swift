import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyVault

/// `latchkey vault store`.
struct VaultStoreCommand: ContextCommand {
    static let configuration = CommandConfiguration(
        commandName: "store",
        abstract: "Store the secret that comes on standard input in a new vault.")

    @OptionGroup var options: GlobalOptions

    @Argument(help: "The vault's name.")
    var name: String

    @Flag(help: "Demand somebody's presence for reading it.")
    var biometrics = false

    @Option(
        help: """
            What the hardware asks for, with --biometrics. (default: user-presence where your finger can be checked, \
            else pin)
            """)
    var policy: LoginPolicyArgument?

    func validate() throws {
        guard policy == nil || biometrics else {
            throw ValidationError("--policy says what --biometrics demands: give both, or neither.")
        }
    }

    func perform(in context: CommandContext) async throws -> VaultReport {
        let session = try await VaultSession(name, in: context, protecting: biometrics, under: policy?.policy)
        let vault = try await session.empty()
        let secret = try context.readSecret("store the vault ‘\(name)’").withUnsafeBytes { Data($0) }
        let stored =
            biometrics
            ? try await vault.storeToBiometrics(credentials: secret).wrap()
            : try await vault.storeToKeychain(credentials: secret).wrap()
        return VaultReport(stored, isRevocable: try await session.space.isStoredRevocably(key: session.key))
    }
}
