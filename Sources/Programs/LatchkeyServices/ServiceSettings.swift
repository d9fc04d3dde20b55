internal import FoundationEssentials
package import Latchkey

/// The settings of a user's service: each value from its option, otherwise from the environment,
/// otherwise from the configuration file of `latchkey`, otherwise the default.
package struct ServiceSettings: Sendable {
    package let container: String
    /// The store's directory.
    package let store: String
    package let hardware: HardwareSettings
    /// The source of PINs.
    package let pins: any PresenceAuthority

    package init(
        options: [String: String?], allowsShortPINs: Bool = false, environment: [String: String]
    ) throws {
        let values = try SettingsReader(options: options, environment: environment)
        container = try values.value("container") ?? "default"
        let directory = try values.value("store")
        store = try directory ?? RecordStore.defaultDirectory(environment: environment)
        hardware = HardwareSettings(
            tcti: try values.tcti(environment: environment), token: try TokenSettings(values),
            allowsShortPINs: allowsShortPINs)
        pins = try values.pins(environment: environment)
    }
}
