public import ArgumentParser
public import Latchkey

/// The options of every command. ``Settings`` merges them with the environment and the
/// configuration file, which have the same names.
struct GlobalOptions: ParsableArguments {
    /// The heading of these options in help texts.
    static let title = "Global options"

    @Flag(help: "Print exactly one JSON object.") var json = false

    @Flag(help: "Print only the result and errors.") var quiet = false

    @Flag(help: "Log operations to standard error.") var verbose = false

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
            "The address of the identity server. (LATCHKEY_ENDPOINT)", valueName: "url"))
    var endpoint: String?

    @Option(
        name: .customLong("client-id"),
        help: ArgumentHelp("The OAuth client ID. (LATCHKEY_CLIENT_ID)", valueName: "id")
    )
    var clientID: String?

    @Option(
        help: ArgumentHelp(
            "The source of PINs: tty, pinentry, fd:N or file:PATH. (LATCHKEY_PIN_SOURCE; default: tty, otherwise pinentry)",
            valueName: "source"))
    var pinSource: String?

    @Option(help: "The preferred user verification, if a key allows more than one.") var presence:
        PresencePreference?

    @Flag(
        help:
            "Accept a new PIN of fewer than 6 characters even if the TPM's lockout password is empty."
    )
    var allowShortPin = false

    @Option(
        help: ArgumentHelp(
            "Where to enter the token's PIN: auto, pin (here) or reader (its PIN pad or sensor). (LATCHKEY_TOKEN_LOGIN)",
            valueName: "way"))
    var tokenLogin: String?

    @Option(
        help: ArgumentHelp(
            "When to run the token's module in a separate process: auto, always or never. (LATCHKEY_TOKEN_ISOLATION)",
            valueName: "when"))
    var tokenIsolation: String?

    @Option(
        help: ArgumentHelp(
            "Other origins of the identity server, separated by commas. (LATCHKEY_TRUSTED_ORIGINS)",
            valueName: "origins"))
    var trustedOrigins: String?
}

extension GlobalOptions {
    /// The values of the options that are settings, by name.
    var values: [String: String?] {
        [
            "container": container, "store": store, "tcti": tcti, "token": token,
            "token-login": tokenLogin,
            "token-isolation": tokenIsolation, "pin-source": pinSource, "endpoint": endpoint,
            "client-id": clientID,
            "trusted-origins": trustedOrigins,
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

    public static let allValueStrings = Requirement.allCases.map(\.rawValue)
}

/// The value of `--policy` where a policy must require user verification: not `none`.
struct LoginPolicyArgument: ExpressibleByArgument {
    let policy: AccessPolicy

    init?(argument: String) {
        guard let policy = AccessPolicy(argument: argument), policy != .none else { return nil }
        self.policy = policy
    }

    static let allValueStrings = AccessPolicy.allValueStrings.filter {
        $0 != AccessPolicy.none.description
    }
}
