internal import FoundationEssentials
package import Latchkey
package import LatchkeyPKCS11
package import LatchkeyPresence
internal import LatchkeyTPM
internal import TPM2TCTI

/// The settings of one run of a program: each value from its option, otherwise from the
/// environment, otherwise from the configuration file, otherwise the default. Reading them does not
/// use the hardware.
package struct ProgramSettings: Sendable {
    package let container: String
    /// The store's directory.
    package let store: String
    /// The TPM's TCTI configuration.
    package let tcti: String
    /// The token that replaces the TPM; nil for the TPM.
    package let token: TokenURI?
    /// Where to enter the token's PIN, and when to run its module in a separate process.
    private let tokenLogin: String
    private let tokenIsolation: String
    /// The values of the two settings; the first is the default.
    static let tokenLogins = ["auto", "pin", "reader"]
    static let tokenIsolations = ["auto", "always", "never"]
    /// nil for the default of the program: the tool's terminal if it has one, otherwise pinentry.
    package let pinSource: PINSource?
    /// The user verification to prefer if a key allows more than one.
    package let preference: PresencePreference
    /// Whether to accept a short new PIN although the TPM's lockout password is empty.
    package let allowsShortPINs: Bool
    /// The identity server's address.
    package let endpoint: String?
    /// The OAuth client ID.
    package let clientID: String?
    /// Other origins that may receive the identity server's tokens. The list is used only if its
    /// source (option, environment, file) is the source of the endpoint or has precedence over it:
    /// a list for one server must not apply to another server.
    package let trustedOrigins: [String]
    /// The socket of the SSH agent that gets the requests for keys that Latchkey's agent does not
    /// have; `none` for no agent, nil for that of the environment.
    package let agentSocket: String?
    /// The path of the configuration file, which may not exist; nil if it is unknown.
    package let configurationFile: String?

    /// - Parameter others: The values of the program's other options that are settings, by name.
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package init(
        _ options: some SharedOptions, others: [String: String?] = [:],
        environment: [String: String]
    ) throws {
        let values = try SettingsReader(
            options: options.values.merging(others) { $1 }, environment: environment)
        configurationFile = values.path
        container = try values.value("container") ?? "default"
        let directory = try values.value("store")
        store = try directory ?? RecordStore.defaultDirectory(environment: environment)
        tcti = try Self.tcti(try values.value("tcti"), environment: environment)
        do {
            token = try values.value("token").map(TokenURI.init)
        } catch let error as CryptokiError {
            throw values.invalid("token", error.reason)
        }
        tokenLogin = try values.value("token-login", among: Self.tokenLogins)
        tokenIsolation = try values.value("token-isolation", among: Self.tokenIsolations)
        pinSource = try values.value("pin-source").map { text throws(KeystoreError) in
            guard let source = PINSource(text) else {
                throw values.invalid(
                    "pin-source", "‘\(text)’ is not tty, pinentry, fd:N or file:PATH")
            }
            return source
        }
        preference = options.presence ?? .any
        allowsShortPINs = options.allowShortPin
        endpoint = try values.value("endpoint")
        clientID = try values.value("client-id")
        agentSocket = try values.value("agent-socket")
        let origins = try values.value("trusted-origins") ?? ""
        trustedOrigins =
            values.isAsSpecific("trusted-origins", as: "endpoint")
            ? origins.split(separator: ",").map(String.init) : []
    }

    /// The TPM's TCTI configuration: the setting, otherwise the one of tpm2-tools, otherwise the
    /// default.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that is not a device. A
    ///   missing device is not an error here.
    package static func tcti(_ setting: String?, environment: [String: String])
        throws(KeystoreError) -> String
    {
        let tools = environment["TPM2TOOLS_TCTI"].flatMap { $0.isEmpty ? nil : $0 }
        let tcti = setting ?? tools ?? TPMKeystore.defaultTCTI
        guard tcti.isEmpty || TCTIConnection.namesFile(tcti) else { return tcti }
        throw KeystoreError(
            operation: "read the TCTI", code: .invalidInput,
            reason: tcti.isEmpty ? "the TCTI is empty" : "‘\(tcti)’ is not a device",
            recovery: "Set a TPM with --tcti or LATCHKEY_TCTI, such as device:/dev/tpmrm0.")
    }

    /// Some tokens do not report their fingerprint sensor.
    package var tokenOptions: PKCS11Options {
        PKCS11Options(
            token: TokenOptions(
                isolation: ["always": .always, "never": .never][tokenIsolation] ?? .automatic),
            protectedPath: ["pin": .never, "reader": .always][tokenLogin] ?? .asTokenSays)
    }

    /// The authority that reads a service's PINs, by default pinentry: the terminal in which a
    /// service was started belongs to the shell. A descriptor is checked before the service opens
    /// its own files.
    package func pins(environment: [String: String]) throws(KeystoreError) -> any PresenceAuthority
    {
        let source = pinSource ?? .pinentry
        try source.checkDescriptor()
        return try source.authority(environment: environment)
    }

    /// The next step for a wrong setting: the three places that may contain it.
    package func advice(toCorrect name: String) -> String {
        SettingsReader.advice(toCorrect: name, in: configurationFile)
    }

    /// An error for a value that a setting cannot have.
    package func invalid(_ name: String, _ reason: String) -> KeystoreError {
        SettingsReader.invalid(name, reason, in: configurationFile)
    }
}
