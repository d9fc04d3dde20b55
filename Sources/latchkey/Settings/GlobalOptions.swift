import ArgumentParser
import Latchkey

/// The options of every command. Each also has a variable in the environment and a member in the configuration file;
/// ``Settings`` decides between them.
struct GlobalOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The container. (LATCHKEY_CONTAINER; default: default)", valueName: "name"))
    var container: String?

    @Option(
        help: ArgumentHelp(
            "The store's directory. (LATCHKEY_STORE; default: $XDG_DATA_HOME/latchkey)", valueName: "dir"))
    var store: String?

    @Option(
        help: ArgumentHelp(
            "How to reach the TPM. (LATCHKEY_TCTI, TPM2TOOLS_TCTI; default: device:/dev/tpmrm0)", valueName: "conf"))
    var tcti: String?

    @Option(
        help: ArgumentHelp(
            "A PKCS#11 token instead of the TPM, by its RFC 7512 URI; see ‘latchkey token list’. (LATCHKEY_TOKEN)",
            valueName: "uri"))
    var token: String?

    @Option(
        help: ArgumentHelp(
            "Where the token's PIN is given: auto, pin (here) or reader (its own pad or finger). (LATCHKEY_TOKEN_LOGIN)",
            valueName: "way"))
    var tokenLogin: String?

    @Option(
        help: ArgumentHelp(
            "Whether the token's module gets a process of its own: auto, always or never. (LATCHKEY_TOKEN_ISOLATION)",
            valueName: "when"))
    var tokenIsolation: String?

    @Option(
        help: ArgumentHelp(
            "Where PINs come from: tty, pinentry, fd:N or file:PATH. (LATCHKEY_PIN_SOURCE; default: tty if there is one)",
            valueName: "source"))
    var pinSource: String?

    @Flag(help: "Accept a new PIN of fewer than 6 characters although the TPM's lockout password is empty.")
    var allowShortPin = false

    @Option(help: "How to show that you are there, where a key lets you choose: any, pin or finger.")
    var presence: PreferredPresence?

    @Option(help: ArgumentHelp("The identity server. (LATCHKEY_ENDPOINT)", valueName: "url"))
    var endpoint: String?

    @Option(
        name: .customLong("client-id"), help: ArgumentHelp("The OAuth client. (LATCHKEY_CLIENT_ID)", valueName: "id"))
    var clientID: String?

    @Option(
        help: ArgumentHelp(
            "Other origins of the identity server, separated by commas. (LATCHKEY_TRUSTED_ORIGINS)",
            valueName: "origins"))
    var trustedOrigins: String?

    @Flag(help: "Print exactly one JSON object.")
    var json = false

    @Flag(help: "Log to stderr what is done.")
    var verbose = false

    @Flag(help: "Print nothing but the result and errors.")
    var quiet = false
}

/// Which way of showing presence to prefer.
enum PreferredPresence: String, ExpressibleByArgument, CaseIterable {
    case any
    case pin
    case finger

    var preference: PresencePreference {
        switch self {
        case .any: .any
        case .pin: .pin
        case .finger: .finger
        }
    }
}
