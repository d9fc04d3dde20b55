import Configuration
import FoundationEssentials
import Latchkey
import SystemPackage

/// Looks a setting up under its option's name: in the options, the environment (`LATCHKEY_…`), the configuration file.
struct SettingsReader {
    private let reader: ConfigReader
    /// The sources, the strongest first.
    private let sources: [ConfigReader]
    private let path: String?

    /// - Throws: ``KeystoreError``: `refused` for a configuration file that others can change, `invalidInput` for one
    ///   that can't be read.
    init(_ options: GlobalOptions, environment: [String: String]) async throws {
        let settings = [
            "container": options.container, "store": options.store, "tcti": options.tcti, "token": options.token,
            "token-login": options.tokenLogin, "token-isolation": options.tokenIsolation,
            "pin-source": options.pinSource, "endpoint": options.endpoint, "client-id": options.clientID,
            "trusted-origins": options.trustedOrigins,
        ]
        let given = settings.compactMap { name, value in
            value.map { (AbsoluteConfigKey([name]), ConfigValue(.string($0), isSecret: false)) }
        }
        // A variable that is set to nothing is as good as not set.
        let variables = environment.filter { $0.key.hasPrefix("LATCHKEY_") && !$0.value.isEmpty }
        var providers: [any ConfigProvider] = [
            InMemoryProvider(name: "options", values: Dictionary(uniqueKeysWithValues: given)),
            EnvironmentVariablesProvider(environmentVariables: variables).prefixKeys(with: "latchkey"),
        ]
        path = Self.path(environment: environment)
        if let path, FileManager.default.fileExists(atPath: path) {
            try TrustedFile.check(path)
            try Self.check(path, names: Set(settings.keys))
            do {
                providers.append(try await FileProvider<JSONSnapshot>(filePath: FilePath(path)))
            } catch {
                throw Self.unreadable(path, "it can't be read (\(error))")
            }
        }
        reader = ConfigReader(providers: providers)
        sources = providers.map { ConfigReader(provider: $0) }
    }

    /// Whether the first source that has a setting is the first one that has the other setting, or a stronger one.
    func isAsSpecific(_ name: String, as other: String) async throws -> Bool {
        for source in sources {
            if try await source.fetchString(forKey: ConfigKey([name])) != nil { return true }
            if try await source.fetchString(forKey: ConfigKey([other])) != nil { return false }
        }
        return false
    }

    subscript(name: String) -> String? {
        get async throws {
            do {
                return try await reader.fetchString(forKey: ConfigKey([name]))
            } catch {
                throw Self.unreadable(path ?? "the settings", "‘\(name)’ must be text")
            }
        }
    }

    /// Sees that the file is an object that has settings alone: one that is misspelt would be a setting that nobody obeys.
    private static func check(_ path: String, names: Set<String>) throws(KeystoreError) {
        let found: SettingNames
        do {
            found = try JSONDecoder().decode(SettingNames.self, from: Data(contentsOf: URL(filePath: path)))
        } catch {
            throw unreadable(path, "it is not one JSON object")
        }
        guard let stranger = found.names.sorted().first(where: { !names.contains($0) }) else { return }
        throw unreadable(path, "‘\(stranger)’ is no setting; there are \(names.sorted().joined(separator: ", "))")
    }

    private static func path(environment: [String: String]) -> String? {
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            return directory + "/latchkey/config.json"
        }
        return environment["HOME"].map { $0 + "/.config/latchkey/config.json" }
    }

    private static func unreadable(_ path: String, _ reason: String) -> KeystoreError {
        .invalidInput("read \(path)", reason)
    }
}
