internal import FoundationEssentials
internal import Latchkey
internal import LatchkeyJOSE

/// Reads settings by the names of their options: from the options, the environment (`LATCHKEY_…`)
/// and the configuration file.
struct SettingsReader {
    /// The options, the variables and the members of the file, each by the names of the options, in
    /// order of precedence.
    private let sources: [[String: JSONValue]]
    /// The path of the configuration file, which may not exist; nil without a home directory.
    let path: String?

    /// The names of the settings. Programs share one configuration file, so each accepts all names.
    private static let names: Set = [
        "container", "store", "tcti", "token", "token-login", "token-isolation", "pin-source",
        "endpoint", "client-id",
        "trusted-origins", "agent-socket",
    ]

    /// - Throws: ``KeystoreError`` with code `invalidInput` for a configuration file that others can
    ///   write, or that cannot be read.
    init(options: [String: String?], environment: [String: String]) throws(KeystoreError) {
        var variables: [String: JSONValue] = [:]
        for name in Self.names {
            // An empty variable counts as unset.
            guard let value = environment[Self.variable(name)], !value.isEmpty else { continue }
            variables[name] = .string(value)
        }
        path = Self.path(environment: environment)
        let file = try path.map { path throws(KeystoreError) in try Self.settings(in: path) }
        sources = [options.compactMapValues { $0.map(JSONValue.string) }, variables, file ?? [:]]
    }

    /// Whether the first source of one setting is the first source of the other, or has precedence
    /// over it.
    func isAsSpecific(_ name: String, as other: String) -> Bool {
        sources.first { $0[name] != nil || $0[other] != nil }?[name] != nil
    }

    /// - Throws: ``KeystoreError`` with code `invalidInput` for a value that is not a string.
    func value(_ name: String) throws(KeystoreError) -> String? {
        guard let value = sources.lazy.compactMap({ $0[name] }).first else { return nil }
        guard let text = value.string else {
            throw Self.unreadable(path ?? "the settings", "‘\(name)’ is not a string")
        }
        return text
    }

    /// - Parameter choices: The permitted values; the first is the default.
    func value(_ name: String, among choices: [String]) throws(KeystoreError) -> String {
        guard let text = try value(name) else { return choices[0] }
        guard choices.contains(text) else {
            let list = choices.dropLast().joined(separator: ", ")
            throw invalid(name, "‘\(text)’ is not \(list) or \(choices[choices.count - 1])")
        }
        return text
    }

    /// The members of the file, which may not exist. It is one JSON object with known settings
    /// only, so that a misspelt setting is an error.
    private static func settings(in path: String) throws(KeystoreError) -> [String: JSONValue] {
        guard FileManager.default.fileExists(atPath: path) else { return [:] }
        let contents = try TrustedFile.contents(of: path)
        let settings: [String: JSONValue]
        do {
            settings = try ReceivedJSON.decode([String: JSONValue].self, from: contents)
        } catch ReceivedJSON.Flaw.repeatedName(let name) {
            throw unreadable(path, "‘\(name)’ is set twice")
        } catch {
            throw unreadable(path, "it is not a JSON object")
        }
        guard let unknown = settings.keys.sorted().first(where: { !names.contains($0) }) else {
            return settings
        }
        throw unreadable(
            path,
            "‘\(unknown)’ is not a setting; the settings are \(names.sorted().joined(separator: ", "))"
        )
    }

    private static func path(environment: [String: String]) -> String? {
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            return directory + "/latchkey/config.json"
        }
        return environment["HOME"].map { $0 + "/.config/latchkey/config.json" }
    }

    /// An error for a value that a setting cannot have.
    func invalid(_ name: String, _ reason: String) -> KeystoreError {
        Self.invalid(name, reason, in: path)
    }

    static func invalid(_ name: String, _ reason: String, in path: String?) -> KeystoreError {
        KeystoreError(
            operation: "read the settings", code: .invalidInput, reason: "\(name): \(reason)",
            recovery: advice(toCorrect: name, in: path))
    }

    private static func unreadable(_ path: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "read \(path)", code: .invalidInput, reason: reason,
            recovery: "Correct the setting in \(path).")
    }

    /// The next step for a wrong setting: the three places that may contain it.
    ///
    /// - Parameter path: The path of the configuration file; nil if it is unknown.
    static func advice(toCorrect name: String, in path: String?) -> String {
        "Correct --\(name), \(variable(name)) or the configuration file\(path.map { " (\($0))" } ?? "")."
    }

    /// The environment variable of a setting.
    static func variable(_ name: String) -> String {
        "LATCHKEY_" + name.uppercased().replacing("-", with: "_")
    }
}
