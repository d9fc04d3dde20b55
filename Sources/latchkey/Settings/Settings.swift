import FoundationEssentials
import Latchkey
internal import LatchkeyHTTP
import LatchkeyPKCS11
import LatchkeyPresence
import LatchkeyTPM
import TPM2
import TPM2TCTI

/// The settings of one run: each value from its option, otherwise from the environment, otherwise from the configuration
/// file, otherwise the default.
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
    /// Other origins that may receive the identity server's tokens. The list is used only if its source (option, environment,
    /// file) is the source of the endpoint or has precedence over it.
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
        let values = try SettingsReader(options, environment: environment)
        configurationFile = values.path
        token = try TokenSettings(values)
        preference = options.presence ?? .any
        allowsShortPINs = options.allowShortPin
        store = try RecordStore.defaultDirectory(environment: environment)
        if let name = try values.value("container") { container = name }
        if let directory = try values.value("store") { store = directory }
        let toolsTCTI = environment["TPM2TOOLS_TCTI"].flatMap { $0.isEmpty ? nil : $0 }
        if let conf = try values.value("tcti") ?? toolsTCTI { tcti = conf }
        try Self.check(tcti: tcti)
        endpoint = try values.value("endpoint")
        clientID = try values.value("client-id")
        // A list for one server must not apply to another server from a source with precedence.
        if values.isAsSpecific("trusted-origins", as: "endpoint"),
            let text = try values.value("trusted-origins")
        {
            trustedOrigins = try Self.origins(text, values)
        }
        if let text = try values.value("pin-source") {
            guard let source = PINSource(text) else {
                throw values.invalid("pin-source", "‘\(text)’ is not tty, pinentry, fd:N or file:PATH")
            }
            pinSource = source
        }
    }

    private static func origins(_ text: String, _ values: SettingsReader) throws(KeystoreError) -> Set<String> {
        var origins: Set<String> = []
        for name in text.split(separator: ",").map(String.init) {
            guard let endpoint = Endpoint(name), endpoint.path == "/" else {
                throw values.invalid("trusted-origins", "‘\(name)’ is not an origin of the form https://a.example")
            }
            origins.insert(endpoint.origin)
        }
        return origins
    }

    /// The next step for a wrong setting: the three places that may contain it.
    ///
    /// - Parameter path: The path of the configuration file; nil if it is unknown.
    static func advice(toCorrect name: String, in path: String?) -> String {
        "Correct --\(name), \(variable(name)) or the configuration file\(path.map { " (\($0))" } ?? "")."
    }

    /// The environment variable of a setting.
    static func variable(_ name: String) -> String { "LATCHKEY_" + name.uppercased().replacing("-", with: "_") }

    /// The reason and the next step if the endpoint, the client ID or both are missing.
    var missingServer: (reason: String, recovery: String) {
        let missing = [("endpoint", endpoint ?? "", "https://…"), ("client-id", clientID ?? "", "…")].filter(
            \.1.isEmpty)
        let (isOne, names) = (missing.count == 1, missing.map(\.0))
        let members = missing.map { #""\#($0.0)": "\#($0.2)""# }.joined(separator: ", ")
        return (
            "no \(names.joined(separator: " and no ")) \(isOne ? "is" : "are") configured",
            "Set \(names.map { "--" + $0 }.joined(separator: " and ")), or put \(isOne ? "it" : "both") into "
                + "\(configurationFile ?? "the configuration file"): {\(members)}."
        )
    }

    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that is not a device. A missing device is not an error here.
    private static func check(tcti: String) throws(KeystoreError) {
        guard tcti.isEmpty || TCTIConnection.namesFile(tcti) else { return }
        throw KeystoreError(
            operation: "read the TCTI", code: .invalidInput,
            reason: tcti.isEmpty ? "the TCTI is empty" : "‘\(tcti)’ is not a device",
            recovery: "Set a TPM with --tcti, such as device:/dev/tpmrm0.")
    }
}

/// The token to use instead of the TPM.
struct TokenSettings: Sendable {
    /// nil for the TPM.
    let uri: TokenURI?
    let options: PKCS11Options

    init(_ values: SettingsReader) throws {
        options = PKCS11Options(
            token: TokenOptions(isolation: try Self.isolation(values)),
            protectedPath: try Self.protectedPath(values))
        do {
            uri = try values.value("token").map(TokenURI.init)
        } catch let error as CryptokiError {
            throw values.invalid("token", error.reason)
        }
    }

    /// The TPM.
    init() {
        uri = nil
        options = PKCS11Options()
    }

    /// Where the user enters the PIN. Some tokens do not report their fingerprint sensor.
    private static func protectedPath(_ values: SettingsReader) throws(KeystoreError) -> PKCS11Options.ProtectedPath {
        switch try values.value("token-login") {
        case nil, "auto"?: return .asTokenSays
        case "pin"?: return .never
        case "reader"?: return .always
        case let text?: throw values.invalid("token-login", "‘\(text)’ is not auto, pin or reader")
        }
    }

    private static func isolation(_ values: SettingsReader) throws(KeystoreError) -> TokenOptions.Isolation {
        switch try values.value("token-isolation") {
        case nil, "auto"?: return .automatic
        case "always"?: return .always
        case "never"?: return .never
        case let text?:
            throw values.invalid("token-isolation", "‘\(text)’ is not auto, always or never")
        }
    }
}
