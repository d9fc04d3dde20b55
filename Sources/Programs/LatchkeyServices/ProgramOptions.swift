public import ArgumentParser
public import Latchkey

/// The options that the tool, the agent and the passkey service share. ``ProgramSettings`` merges
/// them with the environment and the configuration file, which have the same names.
package protocol SharedOptions: ParsableArguments {
    var verbose: Bool { get }
    var container: String? { get }
    var store: String? { get }
    var tcti: String? { get }
    var token: String? { get }
    var tokenLogin: String? { get }
    var tokenIsolation: String? { get }
    var pinSource: String? { get }
    var presence: PresencePreference? { get }
    var allowShortPin: Bool { get }
}

extension SharedOptions {
    /// The values of the options that are settings.
    package var values: [Setting: String?] {
        [
            .container: container, .store: store, .tcti: tcti, .token: token,
            .tokenLogin: tokenLogin, .tokenIsolation: tokenIsolation, .pinSource: pinSource,
            .allowShortPIN: allowShortPin ? "true" : nil,
        ]
    }
}

/// The help texts of the shared options.
package enum OptionHelp {
    package static let verbose: ArgumentHelp = "Log each operation."
    package static let container = ArgumentHelp(
        "The container, a separate set of keys and records. (LATCHKEY_CONTAINER; default: default)",
        valueName: "name")
    package static let store = ArgumentHelp(
        "The directory of the store. (LATCHKEY_STORE; default: $XDG_DATA_HOME/latchkey)",
        valueName: "dir")
    package static let tcti = ArgumentHelp(
        "The TPM, as a TCTI configuration. (LATCHKEY_TCTI, TPM2TOOLS_TCTI; default: device:/dev/tpmrm0)",
        valueName: "conf")
    package static let token = ArgumentHelp(
        "A PKCS#11 token instead of the TPM, as an RFC 7512 URI; see ‘latchkey token list’. (LATCHKEY_TOKEN)",
        valueName: "uri")
    package static let tokenLogin = ArgumentHelp(
        "Where to enter the token's PIN: auto, pin (here) or reader (its PIN pad or sensor). (LATCHKEY_TOKEN_LOGIN)",
        valueName: "way")
    package static let tokenIsolation = ArgumentHelp(
        "When to run the token's module in a separate process: auto, always or never. (LATCHKEY_TOKEN_ISOLATION)",
        valueName: "when")
    package static let pinSource = ArgumentHelp(
        "The source of PINs: tty, pinentry, fd:N or file:PATH. (LATCHKEY_PIN_SOURCE; default of the tool: tty, otherwise pinentry)",
        valueName: "source")
    package static let presence: ArgumentHelp =
        "The preferred user verification, if a key allows more than one."
    package static let allowShortPIN: ArgumentHelp =
        "Accept a new PIN of fewer than 6 characters even if the TPM's lockout password is empty. (LATCHKEY_ALLOW_SHORT_PIN)"
}

/// The values that a shell offers for the shared options.
package enum OptionValues {
    package static let tokenLogin = CompletionKind.list(Setting.tokenLogin.choices ?? [])
    package static let tokenIsolation = CompletionKind.list(
        Setting.tokenIsolation.choices ?? [])
    package static let pinSource = CompletionKind.list(["tty", "pinentry", "fd:", "file:"])
}

/// The shared options of the agent and the passkey service, which have no others.
package struct ProgramOptions: SharedOptions {
    @Flag(help: OptionHelp.verbose) package var verbose = false
    @Option(help: OptionHelp.container) package var container: String?
    @Option(help: OptionHelp.store) package var store: String?
    @Option(help: OptionHelp.tcti) package var tcti: String?
    @Option(help: OptionHelp.token) package var token: String?
    @Option(help: OptionHelp.tokenLogin, completion: OptionValues.tokenLogin)
    package var tokenLogin: String?
    @Option(help: OptionHelp.tokenIsolation, completion: OptionValues.tokenIsolation)
    package var tokenIsolation: String?
    @Option(help: OptionHelp.pinSource, completion: OptionValues.pinSource)
    package var pinSource: String?
    @Option(help: OptionHelp.presence) package var presence: PresencePreference?
    @Flag(help: OptionHelp.allowShortPIN) package var allowShortPin = false

    package init() {}
}

/// The value of `--presence`.
extension PresencePreference: ExpressibleByArgument {}

/// The value of `--policy`: `none`, `pin`, `user-presence`, `biometry-any` or
/// `biometry-current-set`.
extension AccessPolicy: ExpressibleByArgument {
    public init?(argument: String) {
        guard let requirement = Requirement(rawValue: argument) else { return nil }
        self.init(requirement)
    }

    public var defaultValueDescription: String { description }

    public static var defaultCompletionKind: CompletionKind { .list(allValueStrings) }

    public static let allValueStrings = Requirement.allCases.map(\.rawValue)
}

/// The value of `--policy` where a policy must require user verification: not `none`.
package struct VerifyingPolicy: ExpressibleByArgument {
    package let policy: AccessPolicy

    package init?(argument: String) {
        guard let policy = AccessPolicy(argument: argument), policy != .none else { return nil }
        self.policy = policy
    }

    package static let allValueStrings = AccessPolicy.allValueStrings.filter {
        $0 != AccessPolicy.none.description
    }

    package static var defaultCompletionKind: CompletionKind { .list(allValueStrings) }
}
