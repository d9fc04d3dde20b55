import LatchkeyLogin

/// The settings of an app that asks the user before a server learns about the hardware.
func configuration(confirm: @escaping @Sendable (String) async -> Bool) -> ContainerConfiguration {
    ContainerConfiguration(
        endpoint: "https://id.example", clientID: "app",
        disclosesHardware: { disclosure in await confirm(disclosure.text) })
}
