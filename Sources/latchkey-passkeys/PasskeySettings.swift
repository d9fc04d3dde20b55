import Latchkey
import LatchkeyPresence
import LatchkeySettings

/// The service's settings: each value from its option, otherwise from the environment, otherwise from the configuration file of
/// `latchkey`, otherwise the default.
struct PasskeySettings: Sendable {
    let container: String
    let store: String
    let hardware: HardwareSettings
    let pins: any PresenceAuthority

    init(options: [String: String?], allowsShortPINs: Bool, environment: [String: String]) throws {
        let values = try SettingsReader(options: options, environment: environment)
        container = try values.value("container") ?? "default"
        let directory = try values.value("store")
        store = try directory ?? RecordStore.defaultDirectory(environment: environment)
        hardware = HardwareSettings(
            tcti: try values.tcti(environment: environment), token: try TokenSettings(values),
            allowsShortPINs: allowsShortPINs)
        pins = try values.pins(environment: environment)
    }

    /// The container's records in the configured hardware.
    func records() async throws(KeystoreError) -> RecordContainer {
        let opened: RecordStore
        do throws(KeystoreError) {
            opened = try await RecordStore(directory: store)
        } catch {
            throw error.with(
                reason: "the store cannot be opened: \(error.reason)",
                recovery: "\(error.recovery) To select a directory, use --store or LATCHKEY_STORE.")
        }
        return try RecordContainer(name: container, store: opened, keystore: hardware.keystore(opened))
    }
}
