import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyServices
import LatchkeyVault

/// `latchkey vault`.
struct VaultCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vault",
        abstract: "Store secrets, bound to the TPM or token, or protected by PIN or fingerprint.",
        discussion: """
            A vault opens only with this machine's hardware; with --biometrics, only after your PIN or fingerprint. \
            The secret is read from standard input and written to standard output, byte for byte. You can leave out \
            the name if the container has only one vault.
            """,
        subcommands: [
            Store.self, Show.self, Update.self, Upgrade.self, Downgrade.self, Lock.self,
            Unlock.self, Reset.self,
            List.self, Status.self,
        ])
}

/// A command on one existing vault.
protocol VaultContextCommand: ContextCommand {
    var name: String? { get }
}

extension VaultContextCommand {
    /// The commands' names are verbs.
    var operation: String? {
        "\(Self.self)".lowercased() + " the vault" + (name.map { " ‘\($0)’" } ?? "")
    }
}

extension VaultCommand {
    static let nameHelp: ArgumentHelp = "The vault's name."

    /// `latchkey vault store`.
    struct Store: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "store",
            abstract: "Store the secret from standard input in a new vault.")

        static let createsStore = true

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: nameHelp) var name: String

        @Flag(
            help: """
                Require a PIN or fingerprint to read the secret. The default if the setting minimum-policy requires one.
                """)
        var biometrics = false

        @Option(
            help: """
                The user verification that the hardware requires, with --biometrics. (default: user-presence if your \
                fingerprint can be checked here, otherwise pin)
                """)
        var policy: VerifyingPolicy?

        func validate() throws {
            guard policy == nil || biometrics else {
                throw ValidationError("--policy requires --biometrics.")
            }
        }

        var operation: String? { "store the vault ‘\(name)’" }

        func perform(in context: CommandContext) async throws -> VaultReport {
            let biometrics = biometrics || context.settings.requiresVerification
            let session = try await VaultSession(
                name, in: context, changing: true, protecting: biometrics,
                under: policy?.policy)
            let vault = try await session.empty()
            let secret = try await context.readSecret().withUnsafeBytes { Data($0) }
            let stored =
                biometrics
                ? try await vault.storeToBiometrics(credentials: secret).wrap()
                : try await vault.storeToKeychain(credentials: secret).wrap()
            context.console.say(
                "Latchkey keeps no copy elsewhere: no backup opens the vault on other hardware.")
            return VaultReport(
                stored, isRevocable: try await session.space.isStoredRevocably(key: session.key))
        }
    }

    /// `latchkey vault show`.
    struct Show: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "show",
            abstract:
                "Print only the secret. With --json, print the vault's state without the secret.",
            discussion: "‘latchkey vault status’ prints the state without a prompt.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        func perform(in context: CommandContext) async throws -> BriefReport {
            let session = try await VaultSession(name, in: context)
            let vault = try await session.opened()
            let report = VaultReport(vault)
            return BriefReport(
                report, text: report.text, secretOutput: SecretBytes(try vault.credentials))
        }
    }

    /// `latchkey vault update`.
    struct Update: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "update",
            abstract:
                "Replace the secret with the one from standard input, and keep its protection.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(name, in: context, changing: true)
            try session.checkMinimumPolicy(in: context)
            let vault = try await session.opened()
            let secret = try await context.readSecret().withUnsafeBytes { Data($0) }
            return VaultReport(try await vault.update(credentials: secret))
        }
    }

    /// `latchkey vault list`.
    struct List: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the container's vaults by name. Does not prompt or use the hardware.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "list the vaults" }

        func perform(in context: CommandContext) async throws -> VaultListReport {
            let space = try VaultSpace(
                records: try await context.records(), presence: context.presence)
            return VaultListReport(
                vaults: try space.keys().map { VaultReport(stored: $0, in: space) },
                place: context.place)
        }
    }

    /// `latchkey vault status`.
    struct Status: VaultContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "status",
            abstract: "Show the vault's state. Does not prompt or use the hardware.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: VaultCommand.nameHelp, completion: NameCompletion.vaults)
        var name: String?

        var operation: String? { "show the vault's state" }

        func perform(in context: CommandContext) async throws -> VaultReport {
            let session = try await VaultSession(name, in: context)
            try session.checkPresent()
            return VaultReport(
                stored: session.key, in: session.space,
                isRevocable: try? await session.space.isStoredRevocably(key: session.key))
        }
    }
}

struct VaultListReport: Report {
    let vaults: [VaultReport]
    /// The value of ``CommandContext/place``.
    let place: String

    private enum CodingKeys: CodingKey {
        case vaults
    }

    var layout: Layout {
        guard !vaults.isEmpty else { return Layout("There are no vaults\(place).") }
        let rows = vaults.map { vault in
            let name = printable(vault.name)
            return Layout.Row(
                script: "\(name)  \(vault.stateWords)",
                cells: [
                    Layout.Cell(name),
                    Layout.Cell(vault.stateWords, vault.state == "damaged" ? .bad : nil),
                ])
        }
        return .table(["NAME", "PROTECTION"], rows)
    }
}

/// The state of a vault.
struct VaultReport: SentenceReport {
    let name: String
    /// `empty`, `keychain`, `biometrics`, `locked` or `damaged`.
    let state: String
    let biometricsEnabled: Bool
    /// Whether the hardware can revoke a vault with biometrics; only in the reports of `vault
    /// status`, `store` and `upgrade`.
    let isRevocable: Bool?

    /// A stored vault, from its header. Does not use the hardware.
    init(stored key: String, in space: VaultSpace, isRevocable: Bool? = nil) {
        self.isRevocable = isRevocable
        name = key
        do {
            let isProtected = try space.isStoredWithBiometrics(key: key)
            state = isProtected.map { $0 ? "locked" : "keychain" } ?? "empty"
            biometricsEnabled = isProtected ?? false
        } catch {
            (state, biometricsEnabled) = ("damaged", true)
        }
    }

    init(_ vault: Vault<Data>, isRevocable: Bool? = nil) {
        self.isRevocable = isRevocable
        name = vault.key
        biometricsEnabled = vault.biometricsEnabled
        state =
            switch vault {
            case .empty, .emptyWithBiometrics: "empty"
            case .keychain, .keychainUpgradable: "keychain"
            case .biometrics: "biometrics"
            case .locked(let locked): locked.failure == nil ? "locked" : "damaged"
            }
    }

    /// The state in a list.
    fileprivate var stateWords: String {
        switch state {
        case "keychain": "bound to the TPM or token"
        case "biometrics", "locked": "protected by PIN or fingerprint"
        default: state
        }
    }

    var text: String {
        let words =
            switch state {
            case "empty": "is deleted"
            case "keychain": "is stored; the TPM or token opens it without a PIN or fingerprint"
            case "biometrics": "is stored and unlocked; it locks again when this command ends"
            case "locked": "is stored and locked; unlocking requires a PIN or fingerprint"
            default:
                "cannot be read, and nothing was changed; ‘latchkey vault reset NAME’ deletes it"
            }
        let copies =
            isRevocable == false
            ? "\nThis hardware cannot revoke the vault: copies of the store can always open it."
            : ""
        return "The vault ‘\(printable(name))’ \(words).\(copies)"
    }
}
