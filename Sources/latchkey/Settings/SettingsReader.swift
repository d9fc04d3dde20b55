import Configuration
import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyJOSE
import SystemPackage

/// Reads settings by the names of their options from the options, the environment (`LATCHKEY_…`) and the configuration
/// file.
struct SettingsReader {
    private let reader: ConfigReader
    /// The sources in order of precedence.
    private let sources: [ConfigReader]
    /// The path of the configuration file, which may not exist; nil without a home directory.
    let path: String?

    /// - Throws: ``KeystoreError``: `refused` for a configuration file that others can write, `invalidInput` for a file
    ///   that cannot be read.
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
        // An empty variable counts as unset.
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
                throw Self.unreadable(path, "it cannot be read (\(error))")
            }
        }
        reader = ConfigReader(providers: providers)
        sources = providers.map { ConfigReader(provider: $0) }
    }

    /// Whether the first source of one setting is the first source of the other, or has precedence over it.
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
                throw Self.unreadable(path ?? "the settings", "‘\(name)’ is not a string")
            }
        }
    }

    /// Checks that the file is one JSON object with known settings only, so that a misspelt setting is an error.
    private static func check(_ path: String, names: Set<String>) throws(KeystoreError) {
        guard let file = try? JSONDecoder().decode(JSONValue.self, from: Data(contentsOf: URL(filePath: path))),
            let settings = file.object
        else { throw unreadable(path, "it is not a JSON object") }
        guard let unknown = settings.keys.sorted().first(where: { !names.contains($0) }) else { return }
        throw unreadable(
            path, "‘\(unknown)’ is not a setting; the settings are \(names.sorted().joined(separator: ", "))")
    }

    private static func path(environment: [String: String]) -> String? {
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            return directory + "/latchkey/config.json"
        }
        return environment["HOME"].map { $0 + "/.config/latchkey/config.json" }
    }

    /// An error for a value that a setting cannot have.
    func invalid(_ name: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "read the settings", code: .invalidInput, reason: "\(name): \(reason)",
            recovery: Settings.advice(toCorrect: name, in: path))
    }

    private static func unreadable(_ path: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "read \(path)", code: .invalidInput, reason: reason, recovery: "Correct the setting in \(path).")
    }
}

/// The check of a file that only the user and root may write. The configuration file must pass it, because it names the
/// programs to run and the servers that receive secrets.
enum TrustedFile {
    /// Checks the file and its directory. A user who can write the directory can replace the file.
    ///
    /// - Throws: ``KeystoreError`` with code `refused`.
    static func check(_ path: String) throws(KeystoreError) {
        let directory = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        // The directory first: once it is safe, the file cannot be replaced after its check.
        for checked in [directory, path] {
            var status = stat()
            guard stat(checked, &status) == 0 else {
                throw refusal(path, "the owner of \(checked) cannot be read", "Check the owner and mode of \(checked).")
            }
            guard status.st_uid == geteuid() || status.st_uid == 0 else {
                throw refusal(
                    path, "\(checked) belongs to another user",
                    "Remove it, or take ownership of it (chown) if you trust its contents.")
            }
            guard status.st_mode & 0o022 == 0 else {
                throw refusal(
                    path, "other users can write \(checked)",
                    "Check the file's contents, then run: chmod go-w '\(checked)'"
                )
            }
        }
    }

    private static func refusal(_ path: String, _ reason: String, _ recovery: String) -> KeystoreError {
        KeystoreError(operation: "read \(path)", code: .refused, reason: reason, recovery: recovery)
    }
}
