import FoundationEssentials
import Latchkey
internal import LatchkeyOAuth
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyServices
import LatchkeyTPM

/// The settings of one run: each value from its option, otherwise from the environment, otherwise
/// from the configuration file, otherwise the default.
struct Settings: Sendable {
    var container = "default"
    var store: String
    var tcti = TPMKeystore.defaultTCTI
    var token = TokenSettings()
    /// nil for the terminal if there is one, otherwise pinentry.
    var pinSource: PINSource?
    /// The user verification to prefer if a key allows more than one.
    var preference = PresencePreference.any
    /// Whether to accept a short new PIN although the TPM's lockout password is empty.
    var allowsShortPINs = false
    var endpoint: String?
    var clientID: String?
    /// Other origins that may receive the identity server's tokens. The list is used only if its
    /// source (option, environment, file) is the source of the endpoint or has precedence over it.
    var trustedOrigins: Set<String> = []
    /// The path of the configuration file, which may not exist; nil if it is unknown.
    var configurationFile: String?

    /// Settings without options, environment or file.
    init(container: String, store: String, tcti: String, endpoint: String, clientID: String) {
        self.container = container
        self.store = store
        self.tcti = tcti
        self.endpoint = endpoint
        self.clientID = clientID
    }

    init(_ options: GlobalOptions, environment: [String: String]) throws {
        let values = try SettingsReader(options: options.values, environment: environment)
        configurationFile = values.path
        token = try TokenSettings(values)
        preference = options.presence ?? .any
        allowsShortPINs = options.allowShortPin
        store = try RecordStore.defaultDirectory(environment: environment)
        if let name = try values.value("container") { container = name }
        if let directory = try values.value("store") { store = directory }
        tcti = try values.tcti(environment: environment)
        endpoint = try values.value("endpoint")
        clientID = try values.value("client-id")
        // A list for one server must not apply to another server from a source with precedence.
        if values.isAsSpecific("trusted-origins", as: "endpoint"),
            let text = try values.value("trusted-origins")
        {
            trustedOrigins = try Self.origins(text, values)
        }
        pinSource = try values.pinSource()
    }

    private static func origins(_ text: String, _ values: SettingsReader) throws(KeystoreError)
        -> Set<String>
    {
        var origins: Set<String> = []
        for name in text.split(separator: ",").map(String.init) {
            guard let endpoint = Endpoint(name), endpoint.path == "/" else {
                throw values.invalid(
                    "trusted-origins", "‘\(name)’ is not an origin of the form https://a.example")
            }
            origins.insert(endpoint.origin)
        }
        return origins
    }

    /// The reason and the next step if the endpoint, the client ID or both are missing.
    var missingServer: (reason: String, recovery: String) {
        let missing = [
            ("endpoint", endpoint ?? "", "https://…"), ("client-id", clientID ?? "", "…"),
        ].filter(
            \.1.isEmpty)
        let (isOne, names) = (missing.count == 1, missing.map(\.0))
        let members = missing.map { #""\#($0.0)": "\#($0.2)""# }.joined(separator: ", ")
        return (
            "no \(names.joined(separator: " and no ")) \(isOne ? "is" : "are") configured",
            "Set \(names.map { "--" + $0 }.joined(separator: " and ")), or put \(isOne ? "it" : "both") into "
                + "\(configurationFile ?? "the configuration file"): {\(members)}."
        )
    }
}
