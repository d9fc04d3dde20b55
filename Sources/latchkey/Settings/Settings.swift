import Configuration
import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeyTPM

/// What holds for one run: each value from its option, else from the environment, else from the configuration file,
/// else the default.
struct Settings: Sendable {
    var container = "default"
    var store: String
    var tcti = TPMKeystore.defaultTCTI
    var token = TokenSettings()
    /// nil for the terminal if there is one, else pinentry.
    var pinSource: PINSource?
    var endpoint: String?
    var clientID: String?

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
        guard options.presence != .finger else {
            throw KeystoreError.unsupported(
                "ask for a finger", "this version has no fingerprint support yet",
                recovery: "Leave out --presence, or use --presence pin.")
        }
        store = try RecordStore.defaultDirectory(environment: environment)
        if let name = try await values["container"] { container = name }
        if let directory = try await values["store"] { store = directory }
        let toolsTCTI = environment["TPM2TOOLS_TCTI"].flatMap { $0.isEmpty ? nil : $0 }
        if let conf = try await values["tcti"] ?? toolsTCTI { tcti = conf }
        endpoint = try await values["endpoint"]
        clientID = try await values["client-id"]
        if let text = try await values["pin-source"] {
            guard let source = PINSource(text) else {
                throw KeystoreError.invalidInput(
                    "read the PIN source", "‘\(text)’ is none of tty, pinentry, fd:N and file:PATH")
            }
            pinSource = source
        }
    }
}
