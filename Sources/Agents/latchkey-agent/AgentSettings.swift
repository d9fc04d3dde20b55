import LatchkeyPresence
import LatchkeySSH
import LatchkeyServices

/// The agent's settings.
struct AgentSettings: Sendable {
    let service: ServiceSettings
    let presence: BrokeredPresence
    let knownHostsFiles: [String]

    init(options: [String: String?], knownHosts: String?, environment: [String: String]) throws {
        service = try ServiceSettings(options: options, environment: environment)
        presence = BrokeredPresence(pins: service.pins, broker: SystemPresenceBroker { _, _ in })
        knownHostsFiles =
            knownHosts?.split(separator: ":").map(String.init)
            ?? KnownHosts.defaultFiles(home: environment["HOME"])
    }
}
