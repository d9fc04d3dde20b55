import Configuration
import FoundationEssentials
import Latchkey
import SystemPackage

/// Looks a setting up under its option's name: in the options, the environment (`LATCHKEY_…`), the configuration file.
struct SettingsReader {
    private let reader: ConfigReader
    private let path: String?

    /// - Throws: ``KeystoreError``: `refused` for a configuration file that others can change, `invalidInput` for one
    ///   that can't be read.
    init(_ options: GlobalOptions, environment: [String: String]) async throws {
        let given = [
            "container": options.container, "store": options.store, "tcti": options.tcti, "token": options.token,
            "token-login": options.tokenLogin, "token-isolation": options.tokenIsolation,
            "pin-source": options.pinSource, "endpoint": options.endpoint, "client-id": options.clientID,
        ].compactMap { name, value in
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
            do {
                providers.append(try await FileProvider<JSONSnapshot>(filePath: FilePath(path)))
            } catch {
                throw Self.unreadable(path, "it is not a JSON object that can be read (\(error))")
            }
        }
        reader = ConfigReader(providers: providers)
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
