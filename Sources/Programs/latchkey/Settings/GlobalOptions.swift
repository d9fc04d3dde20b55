import ArgumentParser
import Latchkey
import LatchkeyOAuth
import LatchkeyServices

/// The options of every command.
///
/// No command nests them in another group of options: a debug build of ArgumentParser validates a
/// group at each mention of it, so each level makes the start of the program five times slower.
struct GlobalOptions: SharedOptions {
    /// The heading of these options in help texts.
    static let title = "Global options"

    @Flag(help: "Print exactly one JSON object.") var json = false

    @Flag(help: "Print only the result and errors.") var quiet = false

    @Flag(help: OptionHelp.verbose) var verbose = false

    @Option(help: OptionHelp.container) var container: String?

    @Option(help: OptionHelp.store) var store: String?

    @Option(help: OptionHelp.tcti) var tcti: String?

    @Option(help: OptionHelp.token) var token: String?

    @Option(help: OptionHelp.tokenLogin, completion: OptionValues.tokenLogin)
    var tokenLogin: String?

    @Option(help: OptionHelp.tokenIsolation, completion: OptionValues.tokenIsolation)
    var tokenIsolation: String?

    @Option(help: OptionHelp.pinSource, completion: OptionValues.pinSource)
    var pinSource: String?

    @Option(help: OptionHelp.presence) var presence: PresencePreference?

    @Flag(help: OptionHelp.allowShortPIN) var allowShortPin = false

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
            "Other origins of the identity server, separated by commas. (LATCHKEY_TRUSTED_ORIGINS)",
            valueName: "origins"))
    var trustedOrigins: String?

    /// The options of the tool alone that are settings.
    var others: [Setting: String?] {
        [.endpoint: endpoint, .clientID: clientID, .trustedOrigins: trustedOrigins]
    }

    /// The settings of this run of the tool.
    func settings(environment: [String: String]) throws -> ProgramSettings {
        try ProgramSettings(self, others: others, environment: environment) { $0.toolFlaw(in: $1) }
    }
}

extension Setting {
    /// Why the tool does not accept a value, as a clause: also an address to which no secret may be
    /// sent. The services do not use the addresses.
    func toolFlaw(in text: String) -> String? {
        switch self {
        case .endpoint where Endpoint(text)?.hasQuery != false:
            return
                "‘\(text)’ is neither an https address nor an http address of this machine, such as https://id.example"
        case .trustedOrigins:
            let wrong = text.split(separator: ",").first { Endpoint(String($0))?.path != "/" }
            return wrong.map { "‘\($0)’ is not an origin of the form https://a.example" }
        default: return flaw(in: text)
        }
    }
}

extension ProgramSettings {
    /// The trusted origins in their normal form.
    var origins: Set<String> { Set(trustedOrigins.compactMap { Endpoint($0)?.origin }) }

    /// The reason and the next step if the endpoint, the client ID or both are missing.
    var missingServer: (reason: String, recovery: String) {
        let missing = [
            ("endpoint", endpoint ?? "", "https://…"), ("client-id", clientID ?? "", "…"),
        ].filter(\.1.isEmpty)
        let (isOne, names) = (missing.count == 1, missing.map(\.0))
        let members = missing.map { #""\#($0.0)": "\#($0.2)""# }.joined(separator: ", ")
        return (
            "no \(names.joined(separator: " and no ")) \(isOne ? "is" : "are") configured",
            "Set \(names.map { "--" + $0 }.joined(separator: " and ")), or put \(isOne ? "it" : "both") into "
                + "\(configurationFile ?? "the configuration file"): {\(members)}."
        )
    }
}
