import Configuration
import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM
import TPM2

/// What holds for one run: each value from its option, else from the environment, else from the configuration file,
/// else the default.
struct Settings: Sendable {
    var container = "default"
    var store: String
    var tcti = TPMKeystore.defaultTCTI
    var token = TokenSettings()
    /// nil for the terminal if there is one, else pinentry.
    var pinSource: PINSource?
    /// Which way of showing presence to prefer.
    var preference = PresencePreference.any
    /// Whether a new PIN may be short where the TPM's lockout password is empty.
    var allowsShortPINs = false
    var endpoint: String?
    var clientID: String?
    /// Other origins that get the identity server's tokens. They count only where the source of the list (option,
    /// environment, file) is the source of the endpoint or a stronger one.
    var trustedOrigins: Set<String> = []

    /// Values that were decided elsewhere.
    init(container: String, store: String, tcti: String, endpoint: String, clientID: String) {
        self.container = container
        self.store = store
        self.tcti = tcti
        self.endpoint = endpoint
        self.clientID = clientID
    }

    init(_ options: GlobalOptions, environment: [String: String]) async throws {
        let values = try await SettingsReader(options, environment: environment)
        token = try await TokenSettings(values)
        preference = options.presence?.preference ?? .any
        allowsShortPINs = options.allowShortPin
        store = try RecordStore.defaultDirectory(environment: environment)
        if let name = try await values["container"] { container = name }
        if let directory = try await values["store"] { store = directory }
        let toolsTCTI = environment["TPM2TOOLS_TCTI"].flatMap { $0.isEmpty ? nil : $0 }
        if let conf = try await values["tcti"] ?? toolsTCTI { tcti = conf }
        try Self.check(tcti: tcti)
        endpoint = try await values["endpoint"]
        clientID = try await values["client-id"]
        // Origins that were listed for one server must not be trusted for another one that a stronger source names.
        if try await values.isAsSpecific("trusted-origins", as: "endpoint"),
            let text = try await values["trusted-origins"]
        {
            trustedOrigins = try Self.origins(text)
        }
        if let text = try await values["pin-source"] {
            guard let source = PINSource(text) else {
                throw KeystoreError.invalidInput(
                    "read the PIN source", "‘\(text)’ is none of tty, pinentry, fd:N and file:PATH")
            }
            pinSource = source
        }
    }

    private static func origins(_ text: String) throws(KeystoreError) -> Set<String> {
        var origins: Set<String> = []
        for name in text.split(separator: ",").map(String.init) {
            guard let endpoint = Endpoint(name), endpoint.path == "/" else {
                throw .invalidInput(
                    "read the settings", "‘\(name)’ in trusted-origins is not an origin of the form https://a.example")
            }
            origins.insert(endpoint.origin)
        }
        return origins
    }

    /// - Throws: ``KeystoreError`` with code `invalidInput` for what can't be a TPM. One that is missing is no error here.
    private static func check(tcti: String) throws(KeystoreError) {
        let operation = "read the TPM's name"
        let recovery = "Name a TPM with --tcti, such as device:/dev/tpmrm0."
        guard !tcti.isEmpty else {
            throw KeystoreError(operation: operation, code: .invalidInput, reason: "it is empty", recovery: recovery)
        }
        guard !TCTIConnection.namesFile(tcti) else {
            throw KeystoreError(
                operation: operation, code: .invalidInput, reason: "‘\(tcti)’ is no device", recovery: recovery)
        }
    }
}
