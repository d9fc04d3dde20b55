internal import FoundationEssentials
package import Latchkey
package import LatchkeyPKCS11
package import LatchkeyPresence
internal import LatchkeyTPM
internal import TPM2TCTI

/// The settings of one run of a program: each value from its option, otherwise from the
/// environment, otherwise from the user's or the administrator's configuration file, otherwise the
/// default. Reading them does not use the hardware.
package struct ProgramSettings: Sendable {
    /// The values with their places.
    package let values: SettingsReader
    package let container: String
    /// The store's directory.
    package let store: String
    /// The TPM's TCTI configuration.
    package let tcti: String
    /// The token that replaces the TPM; nil for the TPM.
    package let token: TokenURI?
    /// nil for the default of the program: the tool's terminal if it has one, otherwise pinentry.
    package let pinSource: PINSource?
    /// The user verification to prefer if a key allows more than one.
    package let preference: PresencePreference
    /// The user verification that new keys and secrets require at least.
    package let minimumPolicy: AccessPolicy.Requirement
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

    /// - Parameters:
    ///   - others: The values of the program's other options that are settings.
    ///   - flaw: As for ``SettingsReader``.
    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package init(
        _ options: some SharedOptions, others: [Setting: String?] = [:],
        environment: [String: String], flaw: (Setting, String) -> String? = { $0.flaw(in: $1) }
    ) throws {
        try self.init(
            SettingsReader(
                options: options.values.merging(others) { $1 }, environment: environment,
                flaw: flaw),
            preference: options.presence ?? .any, environment: environment)
    }

    /// - Throws: ``KeystoreError`` with code `invalidInput`.
    package init(
        _ values: SettingsReader, preference: PresencePreference = .any,
        environment: [String: String]
    ) throws(KeystoreError) {
        self.values = values
        self.preference = preference
        container = values[.container] ?? Setting.container.standard ?? ""
        store =
            if let directory = values[.store] { directory } else {
                try RecordStore.defaultDirectory(environment: environment)
            }
        tcti = try Self.tcti(values[.tcti], environment: environment)
        token = try Self.token(values)
        pinSource = values[.pinSource].flatMap(PINSource.init)
        minimumPolicy =
            values[.minimumPolicy].flatMap(AccessPolicy.Requirement.init) ?? .none
        endpoint = values[.endpoint]
        clientID = values[.clientID]
        agentSocket = values[.agentSocket]
        trustedOrigins =
            values.isAsSpecific(.trustedOrigins, as: .endpoint)
            ? (values[.trustedOrigins] ?? "").split(separator: ",").map(String.init) : []
    }

    /// The settings of programs that would read one value from the user's file, and the
    /// administrator's file.
    ///
    /// - Parameter flaw: As for ``SettingsReader``.
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a value that the setting cannot
    ///   have, or that is weaker than a fixed one.
    package init(
        checking text: String, of setting: Setting, environment: [String: String],
        flaw: (Setting, String) -> String?
    ) throws(KeystoreError) {
        let own = Set(Setting.allCases.map(\.variable)).union([Self.variableOfTools])
        let rest = environment.filter { !own.contains($0.key) }
        try self.init(
            SettingsReader(
                options: [:], environment: rest, users: [setting: text], flaw: flaw),
            environment: rest)
    }

    private static func token(_ values: SettingsReader) throws(KeystoreError) -> TokenURI? {
        // A fixed empty text means that there is no token.
        guard let text = values[.token], !text.isEmpty else { return nil }
        do throws(CryptokiError) { return try TokenURI(text) } catch {
            throw values.invalid(.token, error.reason)
        }
    }

    /// The variable with the TPM of tpm2-tools.
    package static let variableOfTools = "TPM2TOOLS_TCTI"

    /// The TPM's TCTI configuration: the setting, otherwise the one of tpm2-tools, otherwise the
    /// default.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that is not a device. A
    ///   missing device is not an error here.
    package static func tcti(_ setting: String?, environment: [String: String])
        throws(KeystoreError) -> String
    {
        let tools = environment[variableOfTools].flatMap { $0.isEmpty ? nil : $0 }
        let tcti = setting ?? tools ?? TPMKeystore.defaultTCTI
        guard tcti.isEmpty || TCTIConnection.namesFile(tcti) else { return tcti }
        throw KeystoreError(
            operation: "read the TCTI", code: .invalidInput,
            reason: tcti.isEmpty ? "the TCTI is empty" : "‘\(tcti)’ is not a device",
            recovery: "Set a TPM with --tcti or LATCHKEY_TCTI, such as device:/dev/tpmrm0.")
    }

    /// Whether to accept a short new PIN although the TPM's lockout password is empty.
    package var allowsShortPINs: Bool { values[.allowShortPIN] == "true" }

    /// The path of the user's configuration file, which may not exist; nil if it is unknown.
    package var configurationFile: String? { values.path }

    /// Some tokens do not report their fingerprint sensor.
    package var tokenOptions: PKCS11Options {
        let isolation: TokenOptions.Isolation =
            switch values[.tokenIsolation] {
            case "always": .always
            case "never": .never
            default: .automatic
            }
        let path: PKCS11Options.ProtectedPath =
            switch values[.tokenLogin] {
            case "pin": .never
            case "reader": .always
            default: .asTokenSays
            }
        return PKCS11Options(token: TokenOptions(isolation: isolation), protectedPath: path)
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

    /// An error for a value that a setting cannot have.
    package func invalid(_ setting: Setting, _ reason: String) -> KeystoreError {
        values.invalid(setting, reason)
    }
}
