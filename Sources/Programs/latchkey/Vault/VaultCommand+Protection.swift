import ArgumentParser
import Latchkey
import LatchkeyServices
import LatchkeyVault

extension VaultCommand {
    /// `latchkey vault upgrade`.
    struct Upgrade: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "upgrade",
            abstract: "Require a PIN or fingerprint to read the secret from now on.")

        @OptionGroup var arguments: VaultArguments

        @Option(
            help: """
                The user verification that the hardware requires. (default: user-presence if your fingerprint can be \
                checked here, otherwise pin)
                """)
        var policy: VerifyingPolicy?

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(
                arguments.name, in: context, protecting: true, under: policy?.policy)
            let vault = try await session.unprotected().upgrade()
            return VaultReport(
                vault, isRevocable: try await session.space.isStoredRevocably(key: session.key))
        }
    }

    /// `latchkey vault downgrade`.
    struct Downgrade: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "downgrade",
            abstract: "Stop requiring a PIN or fingerprint. Requires it one last time.")

        @OptionGroup var arguments: VaultArguments

        func perform(in context: CommandContext) async throws -> RevokingReport<VaultReport> {
            let session = try await VaultSession(arguments.name, in: context)
            let report = VaultReport(try await session.unlocked().downgrade())
            return await context.afterRevoking(report, in: session.space.records)
        }
    }

    /// `latchkey vault lock`.
    struct Lock: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "lock",
            abstract: "Lock the vault. It is always locked between commands.")

        @OptionGroup var arguments: VaultArguments

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(arguments.name, in: context)
            return VaultReport(try session.locked())
        }
    }

    /// `latchkey vault unlock`.
    struct Unlock: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "unlock",
            abstract: "Check that you can unlock the vault. It locks again when the command ends.")

        @OptionGroup var arguments: VaultArguments

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(arguments.name, in: context)
            return VaultReport(try await session.unlocked())
        }
    }

    /// `latchkey vault reset`.
    struct Reset: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "reset",
            abstract:
                "Delete the secret, even if it is damaged. Cannot be undone.",
            discussion:
                "At a terminal, asks for confirmation. Does not ask for a PIN or fingerprint.")

        @OptionGroup var arguments: VaultArguments

        @Flag(help: "Do not ask for confirmation.") var yes = false

        func perform(in context: CommandContext) async throws -> RevokingReport<VaultReport> {
            let session = try await VaultSession(arguments.name, in: context)
            let wasStored = try session.space.keys().contains(session.key)
            if wasStored, !yes {
                try await context.confirm(
                    "The secret of the vault ‘\(session.key)’ is deleted. There is no copy.")
            }
            let report = VaultReport(try await session.vault.reset(), isDeleted: wasStored)
            return await context.afterRevoking(report, in: session.space.records)
        }
    }
}
