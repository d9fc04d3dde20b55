import ArgumentParser

/// `latchkey vault`.
struct VaultCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vault",
        abstract: "Keep a secret for this machine alone, or for you alone.",
        discussion: """
            A vault is bound to this machine's hardware. With biometrics somebody must be present to open it. The secret \
            comes on standard input and goes to standard output, byte for byte. Where a name may be left out, it is that \
            of the container's only vault.
            """,
        subcommands: [
            VaultStoreCommand.self, VaultShowCommand.self, VaultUpdateCommand.self, VaultUpgradeCommand.self,
            VaultDowngradeCommand.self, VaultLockCommand.self, VaultUnlockCommand.self, VaultResetCommand.self,
            VaultListCommand.self, VaultStatusCommand.self,
        ])
}
