import FoundationEssentials
import Latchkey
import LatchkeyPresence
import LatchkeySSH
import LatchkeySettings

/// The agent's settings: each value from its option, otherwise from the environment, otherwise from the configuration file of
/// `latchkey`, otherwise the default.
struct AgentSettings: Sendable {
    let container: String
    let store: String
    let hardware: HardwareSettings
    let presence: any PresenceAuthority
    let knownHostsFiles: [String]

    init(options: [String: String?], knownHosts: String?, environment: [String: String]) throws {
        let values = try SettingsReader(options: options, environment: environment)
        container = try values.value("container") ?? "default"
        let directory = try values.value("store")
        store = try directory ?? RecordStore.defaultDirectory(environment: environment)
        hardware = HardwareSettings(
            tcti: try values.tcti(environment: environment), token: try TokenSettings(values))
        presence = BrokeredPresence(
            pins: try values.pins(environment: environment),
            broker: SystemPresenceBroker { _, _ in })
        knownHostsFiles =
            knownHosts?.split(separator: ":").map(String.init)
            ?? KnownHosts.defaultFiles(home: environment["HOME"])
    }
}
