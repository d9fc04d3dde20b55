import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyJOSE

/// Reads settings by the names of their options from the options, the environment (`LATCHKEY_…`) and the configuration
/// file.
struct SettingsReader {
    /// The options, the variables and the members of the file, each by the names of the options, in order of precedence.
    private let sources: [[String: JSONValue]]
    /// The path of the configuration file, which may not exist; nil without a home directory.
    let path: String?

    /// - Throws: ``KeystoreError``: `refused` for a configuration file that others can write, `invalidInput` for a file
    ///   that cannot be read.
    init(_ options: GlobalOptions, environment: [String: String]) throws(KeystoreError) {
        let given = [
            "container": options.container, "store": options.store, "tcti": options.tcti, "token": options.token,
            "token-login": options.tokenLogin, "token-isolation": options.tokenIsolation,
            "pin-source": options.pinSource, "endpoint": options.endpoint, "client-id": options.clientID,
            "trusted-origins": options.trustedOrigins,
        ]
        var variables: [String: JSONValue] = [:]
        for name in given.keys {
            // An empty variable counts as unset.
            guard let value = environment[Settings.variable(name)], !value.isEmpty else { continue }
            variables[name] = .string(value)
        }
        path = Self.path(environment: environment)
        let file = try path.map { path throws(KeystoreError) in try Self.settings(in: path, names: Set(given.keys)) }
        sources = [given.compactMapValues { $0.map(JSONValue.string) }, variables, file ?? [:]]
    }

    /// Whether the first source of one setting is the first source of the other, or has precedence over it.
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

    /// The members of the file, which may not exist. It is one JSON object with known settings only, so that a misspelt setting
    /// is an error.
    private static func settings(in path: String, names: Set<String>) throws(KeystoreError) -> [String: JSONValue] {
        guard FileManager.default.fileExists(atPath: path) else { return [:] }
        try TrustedFile.check(path)
        let contents: Data
        do {
            contents = try Data(contentsOf: URL(filePath: path))
        } catch {
            throw unreadable(path, "it cannot be read (\(error))")
        }
        guard let settings = try? JSONDecoder().decode(JSONValue.self, from: contents).object else {
            throw unreadable(path, "it is not a JSON object")
        }
        guard let unknown = settings.keys.sorted().first(where: { !names.contains($0) }) else { return settings }
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
