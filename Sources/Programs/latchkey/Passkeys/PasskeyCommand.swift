import ArgumentParser
import FoundationEssentials
import Latchkey
import LatchkeyJOSE
import LatchkeyPasskeys
import LatchkeyServices

/// `latchkey passkey`.
struct PasskeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passkey",
        abstract: "Manage the passkeys that browsers and SSH created on this computer.",
        discussion: """
            The package latchkey-passkeys presents this computer to browsers as a FIDO security key. The hardware requires \
            your fingerprint or PIN for each use of a passkey. An ID can be shortened, as long as it stays unique.
            """,
        subcommands: [List.self, Show.self, Rename.self, Delete.self, Serve.self])
}

extension CommandContext {
    /// Opens the store of passkeys. Uses the hardware if there are passkeys, and does not prompt.
    func passkeys() async throws -> (store: PasskeyStore, records: RecordContainer) {
        let records = try await records()
        let console = console
        let store = PasskeyStore(records: records) { console.warn("\($0) \($0.advice)") }
        if try store.count() > 0 { try await store.open(authorizedBy: presence) }
        return (store, records)
    }
}

extension PasskeyCommand {
    static let passkeyHelp = ArgumentHelp(
        "The passkey's ID, its beginning, or its label.", valueName: "passkey")

    /// `latchkey passkey list`.
    struct List: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the passkeys: site, account and ID.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Option(
            help: ArgumentHelp(
                "Only the passkeys of this site, for example example.com.", valueName: "site"))
        var site: String?

        var operation: String? { "list the passkeys" }

        func perform(in context: CommandContext) async throws -> PasskeyListReport {
            let passkeys = try await context.passkeys().store.list()
            return PasskeyListReport(
                passkeys: passkeys.filter { site == nil || $0.rpID == site }
                    .map(PasskeyReport.init),
                place: context.place)
        }
    }

    /// `latchkey passkey show`.
    struct Show: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Show one passkey.")

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: PasskeyCommand.passkeyHelp) var passkey: String

        var operation: String? { "show a passkey" }

        func perform(in context: CommandContext) async throws -> PasskeyReport {
            PasskeyReport(try await context.passkeys().store.passkey(named: passkey))
        }
    }

    /// `latchkey passkey rename`.
    struct Rename: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "rename",
            abstract: "Give a passkey a label of your own.",
            discussion:
                "Sites do not see the label. No other passkey may have it. An empty label removes it."
        )

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: PasskeyCommand.passkeyHelp) var passkey: String
        @Argument(help: "The new label, at most 64 characters.") var label: String

        func validate() throws {
            guard label.count <= 64 else {
                throw ValidationError("A label has at most 64 characters.")
            }
        }

        var operation: String? { "rename a passkey" }

        func perform(in context: CommandContext) async throws -> PasskeyReport {
            let store = try await context.passkeys().store
            let passkey = try store.passkey(named: passkey)
            try store.rename(passkey.id, to: label.isEmpty ? nil : label)
            return PasskeyReport(try store.passkey(named: Base64URL.encode(passkey.id)))
        }
    }

    /// `latchkey passkey delete`.
    struct Delete: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "delete",
            abstract: "Delete passkeys permanently.",
            discussion: """
                Delete a passkey at its site first: the site does not notice that it is gone. Add another way to log in \
                before that. Deleting requires the complete ID. At a terminal, asks for confirmation; without a terminal, \
                requires --yes.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions
        @Argument(help: ArgumentHelp("The passkey's complete ID.", valueName: "id")) var passkey:
            String?
        @Flag(help: "Delete all passkeys of the container.") var all = false
        @Flag(help: Confirmation.help) var yes = false

        func validate() throws {
            guard all != (passkey != nil) else {
                throw ValidationError("Name either a passkey or --all.")
            }
        }

        var operation: String? { all ? "delete the passkeys" : "delete a passkey" }

        func perform(in context: CommandContext) async throws -> PasskeyDeletionReport {
            let (store, records) = try await context.passkeys()
            let damaged = try store.damagedIDs().filter { passkey == nil || $0 == passkey }
            if passkey != nil, let id = damaged.first {
                try await Confirmation.check(
                    "The damaged passkey ‘\(id)’ will be deleted. \(Confirmation.copies)",
                    isGiven: yes)
                try store.delete(damaged: damaged)
                return PasskeyDeletionReport(deleted: damaged)
            }
            var passkeys = try store.list()
            if let passkey {
                let found = try store.passkey(named: passkey)
                guard Base64URL.encode(found.id) == passkey else {
                    throw KeystoreError.invalidInput("deleting requires the complete ID")
                        .with(
                            recovery: "Run ‘latchkey passkey delete \(Base64URL.encode(found.id))’."
                        )
                }
                passkeys = [found]
                try await Confirmation.check(
                    "The passkey for ‘\(found.rpID)’ will be deleted. \(Confirmation.copies)",
                    isGiven: yes)
            } else {
                try await confirm(passkeys.count + damaged.count, in: context)
            }
            // The hardware first, because the user may cancel its prompt: a token keeps its keys. A
            // TPM keeps none.
            for passkey in passkeys {
                try await records.keystore.delete(
                    passkey.key, for: context.prompt("delete the passkey for \(passkey.rpID)"),
                    authorizedBy: context.presence)
                try store.delete([passkey.id])
            }
            if !damaged.isEmpty { try store.delete(damaged: damaged) }
            return PasskeyDeletionReport(
                deleted: passkeys.map { Base64URL.encode($0.id) } + damaged)
        }

        private func confirm(_ count: Int, in context: CommandContext) async throws(KeystoreError) {
            guard count > 0 else { return }
            let name = context.settings.container
            try await Confirmation.check(
                "All passkeys of the container ‘\(name)’ will be deleted: \(count). \(Confirmation.copies)",
                isGiven: yes)
        }
    }
}

/// A passkey. Texts of the site are printable.
struct PasskeyReport: Report {
    let id: String
    let site: String
    let siteName: Nullable<String>
    let account: String
    let label: Nullable<String>
    let createdAt: Date
    let policy: String
    let prf: Bool
    let credProtect: Int

    init(_ passkey: Passkey) {
        id = Base64URL.encode(passkey.id)
        site = passkey.rpID
        siteName = Nullable(passkey.rpName)
        account = passkey.accountName
        label = Nullable(passkey.label)
        createdAt = passkey.createdAt
        policy = passkey.key.policy.description
        prf = passkey.macKey != nil
        credProtect = passkey.protection
    }

    var layout: Layout {
        .fields(
            11,
            [
                ("site", Layout.Cell(printable(site))),
                ("account", Layout.Cell(printable(account))),
                ("label", label.value.map { Layout.Cell(printable($0)) }), ("id", Layout.Cell(id)),
                ("created", Layout.Cell(createdAt)), ("policy", Layout.Cell(policy)),
                ("PRF", prf ? "yes" : "no"),
            ])
    }
}

/// The result of ‘latchkey passkey list’.
struct PasskeyListReport: Report {
    let passkeys: [PasskeyReport]
    /// The value of ``CommandContext/place``.
    let place: String

    private enum CodingKeys: CodingKey {
        case passkeys
    }

    var layout: Layout {
        guard !passkeys.isEmpty else {
            return Layout("There are no passkeys on this computer\(place).")
        }
        let rows = passkeys.map { passkey in
            let words = [
                String(passkey.id.prefix(8)), printable(passkey.site),
                printable(passkey.label.value ?? passkey.account),
            ]
            let created = Layout.Cell(passkey.createdAt)
            return Layout.Row(
                script: (words + [created.script]).joined(separator: "  "),
                cells: words.map { Layout.Cell($0) } + [created])
        }
        return .table(["ID", "SITE", "NAME", "CREATED"], rows)
    }
}

/// The result of ‘latchkey passkey delete’.
struct PasskeyDeletionReport: SentenceReport {
    let deleted: [String]

    var text: String {
        deleted.count == 1 ? "The passkey is deleted." : "\(deleted.count) passkeys are deleted."
    }
}

extension PasskeyCommand {
    /// `latchkey passkey serve`. Runs `latchkey-passkeys`, a smaller program that uses less memory
    /// than this one.
    struct Serve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "serve",
            abstract: "Present this user's passkeys to browsers and SSH, until it is stopped.",
            discussion: """
                Runs latchkey-passkeys, as the user service latchkey-passkeys.service does in each graphical session. It \
                connects to the relay latchkey-uhid, and prompts with pinentry and the fingerprint reader. \
                PINENTRY_PROGRAM names another pinentry program.
                """)

        @OptionGroup(title: GlobalOptions.title) var options: GlobalOptions

        @Option(
            help: """
                The user verification that the hardware requires for new passkeys. (default: user-presence if your \
                fingerprint can be checked here, otherwise pin)
                """)
        var policy: VerifyingPolicy?

        @Option(
            help: ArgumentHelp(
                "Use another relay, a socket of your own processes, for tests.", valueName: "socket"
            ))
        var relay: String?

        func run() async throws {
            throw SiblingProgram.replaceThisProcess(
                with: "latchkey-passkeys", serviceArguments, package: "latchkey-passkeys"
            )
            .during("serve passkeys")
        }

        /// The options of the service. The other options concern servers and output, which the
        /// service does not use.
        private var serviceArguments: [String] {
            let shared: [Setting] = [
                .container, .store, .tcti, .token, .tokenLogin, .tokenIsolation, .pinSource,
            ]
            var values: [(String, String?)] = shared.map {
                ($0.rawValue, options.values[$0] ?? nil)
            }
            values += [
                ("presence", options.presence?.rawValue), ("policy", policy?.policy.description),
                ("relay", relay),
            ]
            return values.compactMap { name, value in value.map { "--\(name)=\($0)" } }
                + (options.allowShortPin ? ["--allow-short-pin"] : [])
                + (options.verbose ? ["--verbose"] : [])
        }
    }
}
