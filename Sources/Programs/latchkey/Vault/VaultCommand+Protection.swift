import ArgumentParser
import Latchkey
import LatchkeyServices
import LatchkeyVault

extension VaultCommand {
    /// `latchkey vault upgrade`.
    struct Upgrade: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "upgrade",
            abstract: "Require a PIN or fingerprint to read the secret from now on.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        @Option(
            help: """
                The user verification that the hardware requires. (default: user-presence if your fingerprint can be \
                checked here, otherwise pin)
                """)
        var policy: VerifyingPolicy?

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(
                name, in: context, changing: true, protecting: true, under: policy?.policy)
            let vault = try await session.unprotected().upgrade()
            return VaultReport(
                vault, isRevocable: try await session.space.isStoredRevocably(key: session.key))
        }
    }

    /// `latchkey vault downgrade`.
    struct Downgrade: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "downgrade",
            abstract: "Stop requiring a PIN or fingerprint. Requires it one last time.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        func perform(in context: CommandContext) async throws -> RevokingReport<VaultReport> {
            try context.settings.check(.none, recovery: "Keep the vault's protection.")
            let session = try await VaultSession(name, in: context, changing: true)
            let report = VaultReport(try await session.unlocked().downgrade())
            return await context.afterRevoking(report, in: session.space.records)
        }
    }

    /// `latchkey vault lock`.
    struct Lock: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "lock",
            abstract: "Lock the vault. It is always locked between commands.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(name, in: context)
            return VaultReport(try session.locked())
        }
    }

    /// `latchkey vault unlock`.
    struct Unlock: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "unlock",
            abstract: "Check that you can unlock the vault. It locks again when the command ends.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(name, in: context)
            return VaultReport(try await session.unlocked())
        }
    }

    /// `latchkey vault reset`.
    struct Reset: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "reset",
            abstract:
                "Delete the secret, even if it is damaged. Cannot be undone.",
            discussion:
                """
                At a terminal, asks for confirmation; without a terminal, requires --yes. Does not ask for a PIN or \
                fingerprint.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        @Flag(help: Confirmation.help) var yes = false

        func perform(in context: CommandContext) async throws -> RevokingReport<VaultReport> {
            let session = try await VaultSession(name, in: context)
            try session.checkPresent()
            try await Confirmation.check(
                "The secret of the vault ‘\(session.key)’ will be deleted. \(Confirmation.copies)",
                isGiven: yes)
            let report = VaultReport(try await session.vault.reset())
            return await context.afterRevoking(report, in: session.space.records)
        }
    }
}
