public import ArgumentParser
public import Latchkey

/// The options that the tool, the agent and the passkey service share. ``ProgramSettings`` merges
/// them with the environment and the configuration file, which have the same names.
package struct ProgramOptions: ParsableArguments {
    @Flag(help: "Log each operation.") package var verbose = false

    @Option(
        help: ArgumentHelp(
            "The container. (LATCHKEY_CONTAINER; default: default)", valueName: "name"))
    var container: String?

    @Option(
        help: ArgumentHelp(
            "The directory of the store. (LATCHKEY_STORE; default: $XDG_DATA_HOME/latchkey)",
            valueName: "dir"))
    var store: String?

    @Option(
        help: ArgumentHelp(
            "The TPM, as a TCTI configuration. (LATCHKEY_TCTI, TPM2TOOLS_TCTI; default: device:/dev/tpmrm0)",
            valueName: "conf"))
    var tcti: String?

    @Option(
        help: ArgumentHelp(
            "A PKCS#11 token instead of the TPM, as an RFC 7512 URI; see ‘latchkey token list’. (LATCHKEY_TOKEN)",
            valueName: "uri"))
    var token: String?

    @Option(
        help: ArgumentHelp(
            "Where to enter the token's PIN: auto, pin (here) or reader (its PIN pad or sensor). (LATCHKEY_TOKEN_LOGIN)",
            valueName: "way"), completion: .list(ProgramSettings.tokenLogins))
    var tokenLogin: String?

    @Option(
        help: ArgumentHelp(
            "When to run the token's module in a separate process: auto, always or never. (LATCHKEY_TOKEN_ISOLATION)",
            valueName: "when"), completion: .list(ProgramSettings.tokenIsolations))
    var tokenIsolation: String?

    @Option(
        help: ArgumentHelp(
            "The source of PINs: tty, pinentry, fd:N or file:PATH. (LATCHKEY_PIN_SOURCE; default: tty, otherwise pinentry)",
            valueName: "source"), completion: .list(["tty", "pinentry", "fd:", "file:"]))
    var pinSource: String?

    @Option(help: "The preferred user verification, if a key allows more than one.")
    package var presence: PresencePreference?

    @Flag(
        help:
            "Accept a new PIN of fewer than 6 characters even if the TPM's lockout password is empty."
    )
    package var allowShortPin = false

    package init() {}

    /// The values of the options that are settings, by name.
    package var values: [String: String?] {
        [
            "container": container, "store": store, "tcti": tcti, "token": token,
            "token-login": tokenLogin, "token-isolation": tokenIsolation, "pin-source": pinSource,
        ]
    }
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
