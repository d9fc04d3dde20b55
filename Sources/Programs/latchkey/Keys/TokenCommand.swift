import ArgumentParser
import Latchkey
import LatchkeyJOSE
import LatchkeyPKCS11
import LatchkeyServices

/// `latchkey token`.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "List and initialize PKCS#11 tokens, and manage their PINs.",
        subcommands: [List.self, Keys.self, Initialize.self, ChangePIN.self])
}

extension TokenCommand {
    /// `latchkey token list`.
    struct List: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the tokens of this machine's PKCS#11 modules. Does not prompt.",
            discussion: """
                The modules are those in the p11-kit configuration, or the one that --token names. The list has all \
                their tokens, also those that do not match --token. If a module cannot be used, the list gives the \
                reason. If it is the one that --token names, the command fails.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        func perform(in context: CommandContext) async throws -> TokenListReport {
            StandardStreams.keepOutputPrivate()
            let options = context.settings.tokenOptions.token
            func directory() async -> TokenDirectory {
                guard let uri = context.settings.token else {
                    return await TokenDirectory.read(options: options)
                }
                return await TokenDirectory.read(uri, isMatching: false, options: options)
            }
            let found =
                arguments.verbose
                ? await directory() : await StandardStreams.withoutForeignMessages(directory)
            // The module that the user named can't be used.
            if context.settings.token?.namesModule == true, found.tokens.isEmpty,
                let failure = found.failures.first
            {
                throw failure.keystoreError
            }
            return TokenListReport(found)
        }
    }

    /// `latchkey token keys`.
    struct Keys: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "keys",
            abstract: "List the token's keys, including those of other programs. Does not prompt.",
            discussion: """
                A URI with a key's id makes ‘latchkey key create’ adopt that key instead of creating one. For a key \
                that cannot be adopted, the list has the reason. Some tokens show some keys only after a login. Those keys are not in the list.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        var operation: String? { "list the token's keys" }

        func perform(in context: CommandContext) async throws -> TokenKeyListReport {
            let keys = try await PKCS11Keystore(
                uri: context.tokenURI(), options: context.settings.tokenOptions
            )
            .keys()
            return TokenKeyListReport(keys: keys.map(TokenKeyReport.init))
        }
    }

    /// `latchkey token init`.
    struct Initialize: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "init",
            abstract: "Erase a token and set its label and PINs.",
            discussion: """
                Prompts for the security officer's PIN (the current one, or a new one if the token was never \
                initialized), then for the new user PIN. If several tokens match --token and one of them is not \
                initialized, the command uses that one. To reset a YubiKey, run ‘ykman piv reset’.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Option(help: "The token's new label, 1 to 32 bytes.") var label: String

        @Flag(help: "Erase an initialized token, with all keys on it, permanently.") var erase =
            false

        var operation: String? { "initialize the token" }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let information = try await context.administrator().initialize(
                label: label, erasing: erase)
            let (label, serial) = (information.label, information.serial)
            return BriefReport(
                ["label": label, "serial": serial],
                text: printable(
                    "The token ‘\(label)’ is initialized; its serial number is \(serial)."))
        }
    }

    /// `latchkey token pin`.
    struct ChangePIN: ContextCommand {
        static let configuration = CommandConfiguration(
            commandName: "pin",
            abstract: "Change a token's PIN, or set it as the security officer.",
            discussion: """
                Prompts for the current PIN (with --so or --init the security officer's PIN, with --unblock the PUK \
                or the security officer's PIN), then for the new PIN. All keys on a token have the same PIN.
                """)

        @OptionGroup(title: GlobalOptions.title) var arguments: GlobalOptions

        @Flag(
            help:
                "Change the security officer's PIN (YubiKey: the management key) instead of the user PIN."
        )
        var so = false

        @Flag(name: .customLong("init"), help: "Set the user PIN as the security officer.")
        var initialize = false

        @Flag(help: "Unblock the user PIN after too many wrong PINs.") var unblock = false

        func validate() throws {
            guard [so, initialize, unblock].count(where: \.self) <= 1 else {
                throw ValidationError("Give at most one of --so, --init and --unblock.")
            }
        }

        var operation: String? {
            if unblock { return "unblock the token's PIN" }
            return initialize
                ? "set the token's PIN" : "change the \(so ? "security officer" : "token")'s PIN"
        }

        func perform(in context: CommandContext) async throws -> BriefReport {
            let administrator = try context.administrator()
            if so {
                try await administrator.changeSecurityOfficerPIN()
            } else if initialize {
                try await administrator.initializePIN()
            } else if unblock {
                try await administrator.unblockPIN()
            } else {
                try await administrator.changePIN()
            }
            return BriefReport(
                ["changed": so ? "securityOfficer" : "user"],
                text: so ? "The security officer has the new PIN." : "The token has the new PIN.")
        }
    }
}

extension CommandContext {
    /// The administrator of the configured token.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if no token is configured.
    func administrator() throws(KeystoreError) -> TokenAdministrator {
        TokenAdministrator(
            try tokenURI(), options: settings.tokenOptions, container: settings.container,
            presence: presence)
    }

    /// The URI of the configured token.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` if no token is configured.
    func tokenURI() throws(KeystoreError) -> TokenURI {
        guard let uri = settings.token else {
            throw KeystoreError(
                operation: "find the token", code: .invalidInput, reason: "no token is configured",
                recovery:
                    "Set one with --token or LATCHKEY_TOKEN; ‘latchkey token list’ shows the URIs.")
        }
        return uri
    }
}

struct TokenKeyListReport: Report {
    let keys: [TokenKeyReport]

    var layout: Layout {
        keys.isEmpty
            ? Layout("The token shows no keys without a login.")
            : .joined(keys.map(\.layout))
    }
}

/// A key on a token.
struct TokenKeyReport: Report {
    /// The value of `--token` to adopt the key.
    let uri: Nullable<String>
    let label: String
    /// The slot of a PIV card.
    let slot: Nullable<String>
    /// Whether the key is on P-256, the only type that can be adopted.
    let isP256: Bool
    /// Why the key can't be adopted.
    let problem: Nullable<String>

    init(_ key: TokenKeyListing) {
        (label, isP256) = (key.label, key.publicKey != nil)
        uri = Nullable(key.uri)
        problem = Nullable(key.problem)
        slot = Nullable(key.slot?.description)
    }

    var layout: Layout {
        let place = slot.value.map { "slot \($0)  " } ?? ""
        let obstacle = "It can't be adopted: \(problem.value ?? "it is not usable")."
        return Layout("\(place)\(isP256 ? "P-256" : "another type")  \(printable(label))")
            .then(Layout("  \(printable(uri.value ?? obstacle))"))
    }
}

struct TokenListReport: Report {
    let tokens: [TokenReport]
    /// The modules that cannot be used.
    let failures: [ModuleFailureReport]

    init(_ directory: TokenDirectory) {
        tokens = directory.tokens.map(TokenReport.init)
        failures = directory.failures.map(ModuleFailureReport.init)
    }

    var layout: Layout {
        let none =
            failures.isEmpty
            ? "There are no tokens." : "No tokens were found, and some modules cannot be used:"
        return .stack(
            (tokens.isEmpty ? [Layout(none)] : tokens.map(\.layout)) + failures.map(\.layout))
    }
}

/// A module that cannot be used, and the reason.
struct ModuleFailureReport: SentenceReport {
    let modulePath: String
    let message: String
    let recovery: String

    init(_ failure: TokenDirectory.Failure) {
        let error = failure.keystoreError
        modulePath = failure.modulePath
        message = error.description
        recovery = error.advice
    }

    var text: String { "\(printable(message))\n  \(printable(recovery))" }
}

/// A token, without secrets.
struct TokenReport: Report {
    /// The value of `--token` for this token.
    let uri: String
    let label: String
    let manufacturer: String
    let model: String
    let serial: String
    let firmware: String
    let modulePath: String
    /// The manufacturer, description and version of the module.
    let module: String
    let initialized: Bool
    /// The important token flags, in words.
    let flags: [String]
    /// `softhsm` for a token in software; nil for hardware.
    let simulator: Nullable<String>

    init(_ entry: TokenDirectory.Entry) {
        let information = entry.information
        uri = entry.uri.string
        (label, serial) = (information.label, information.serial)
        (manufacturer, model) = (information.manufacturer, information.model)
        firmware = entry.firmwareVersion
        modulePath = entry.modulePath
        module = "\(entry.module.manufacturer) \(entry.module.description) \(entry.moduleVersion)"
        initialized = information.flags.contains(.initialized)
        flags = information.flagWords
        simulator = Nullable(entry.simulator)
    }

    var layout: Layout {
        let number = serial.isEmpty ? "unknown" : serial
        let name = label.isEmpty ? "no label" : printable(label)
        let use = initialized ? "" : ", not initialized"
        return .fields(
            12,
            [
                ("Token", Layout.Cell("\(name)\(use)")),
                (
                    "Device",
                    Layout.Cell(printable("\(manufacturer) \(model), serial number \(number)"))
                ), ("State", Layout.Cell(flags.isEmpty ? "normal" : flags.joined(separator: ", "))),
                ("Module", Layout.Cell(printable("\(modulePath) (\(module))"))),
                ("URI", Layout.Cell(printable(uri))),
                (
                    "Simulator",
                    simulator.value.map {
                        Layout.Cell("\(printable($0)): it does not protect keys")
                    }
                ),
            ])
    }
}
