import LatchkeyPKCS11

/// A token as it is shown.
struct TokenReport: Report {
    /// Names this token for `--token`.
    let uri: String
    let label: String
    let manufacturer: String
    let model: String
    let serial: String
    let firmware: String
    let modulePath: String
    /// What the module says of itself.
    let module: String
    let initialized: Bool
    /// What matters of the token's flags, in words.
    let flags: [String]
    /// What the token is in software, where it is: `softhsm`.
    let simulator: Nullable<String>

    init(_ entry: TokenDirectory.Entry) {
        let information = entry.information
        uri = entry.uri.string
        (label, serial) = (information.label, information.serial)
        (manufacturer, model) = (information.manufacturer, information.model)
        firmware = information.firmwareVersion.description
        modulePath = entry.modulePath
        module = "\(entry.module.manufacturer) \(entry.module.description) \(entry.module.version)"
        initialized = information.flags.contains(.initialized)
        flags = information.flagWords
        simulator = Nullable(entry.simulator)
    }

    var text: String {
        let kind = simulator.value.map { "\nSimulator:  \(printable($0)): it protects keys from nobody" } ?? ""
        return """
            Token:      \(label.isEmpty ? "no label" : printable(label))\(initialized ? "" : ", not initialised")
            Device:     \(printable("\(manufacturer) \(model), serial number \(serial.isEmpty ? "unknown" : serial)"))
            State:      \(flags.isEmpty ? "nothing special" : flags.joined(separator: ", "))
            Module:     \(printable("\(modulePath) (\(module))"))
            URI:        \(printable(uri))\(kind)
            """
    }
}
