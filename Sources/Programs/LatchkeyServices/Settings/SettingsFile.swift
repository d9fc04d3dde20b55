internal import FoundationEssentials
internal import Glibc
package import Latchkey
internal import LatchkeyJOSE
internal import LatchkeyPlatform

/// A configuration file: one JSON object whose members are settings.
///
/// The administrator's file also has a member `fixed`, an object of settings that users cannot
/// weaken.
package struct SettingsFile: Sendable {
    /// The administrator's file of this machine. No option or variable replaces it: a user could
    /// then leave its rules.
    package static let administrators = "/etc/latchkey/config.json"

    package let path: String
    package var values: [Setting: String]
    /// The settings that users cannot weaken; empty for a user's file.
    package let fixed: [Setting: String]

    /// Reads a user's file, which may not exist.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that other users can write,
    ///   that cannot be read, or that is malformed.
    package init(users path: String) throws(KeystoreError) {
        self.path = path
        values = try Self.settings(
            Self.members(of: path, owner: .userOrRoot) ?? [:], in: path)
        fixed = [:]
    }

    /// Reads the administrator's file.
    ///
    /// - Returns: nil if it does not exist.
    /// - Throws: ``KeystoreError`` with code `invalidInput` for a file that root does not own, that
    ///   others can write, that cannot be read, or that is malformed.
    package init?(administrators path: String) throws(KeystoreError) {
        guard var members = try Self.members(of: path, owner: .root) else { return nil }
        let member = members.removeValue(forKey: Self.fixedName) ?? .object([:])
        guard let rules = member.object else {
            throw Self.unreadable(path, "‘\(Self.fixedName)’ is not an object of settings")
        }
        try Self.checkReadability(of: path)
        self.path = path
        var values = try Self.settings(members, in: path)
        var fixed = try Self.settings(rules, in: path)
        if let double = Setting.allCases.first(where: { values[$0] != nil && fixed[$0] != nil }) {
            throw Self.unreadable(path, "‘\(double.rawValue)’ is set twice")
        }
        // Without the server, the list would apply to the server of each user.
        if fixed[.trustedOrigins] != nil, fixed[.endpoint] == nil {
            throw Self.unreadable(path, "‘trusted-origins’ is fixed, and ‘endpoint’ is not")
        }
        // Otherwise a user could replace the fixed TPM by a token, or name other origins for the
        // tokens of the fixed server.
        for (setting, other) in [(Setting.tcti, Setting.token), (.endpoint, .trustedOrigins)]
        where fixed[setting] != nil && fixed[other] == nil {
            fixed[other] = values.removeValue(forKey: other) ?? ""
        }
        (self.values, self.fixed) = (values, fixed)
    }

    private static let fixedName = "fixed"

    /// The files in the directory of the administrator's file that look like one, and that no
    /// program reads: for example `config.JSON`.
    package static func namesLikeAdministrators(_ path: String = administrators) -> [String] {
        let place = URL(filePath: path)
        let directory = place.deletingLastPathComponent().path
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.filter { name in
            let lower = name.lowercased()
            return name != place.lastPathComponent
                && (lower.contains("conf") || lower.contains("json"))
        }
        .sorted()
    }

    /// Checks that all users can read the administrator's file: otherwise root would see no error,
    /// and every program of the users would end with one.
    private static func checkReadability(of path: String) throws(KeystoreError) {
        let target = URL(filePath: path).resolvingSymlinksInPath()
        let places = [
            (URL(filePath: path).deletingLastPathComponent().path, S_IXOTH, "a+rx"),
            (target.deletingLastPathComponent().path, S_IXOTH, "a+rx"),
            (target.path, S_IROTH, "a+r"),
        ]
        for (place, right, change) in places {
            var status = stat()
            guard stat(place, &status) != 0 || status.st_mode & right == 0 else { continue }
            throw KeystoreError(
                operation: "read \(path)", code: .invalidInput,
                reason: "the mode of \(place) does not let all users read it",
                recovery: "Run: chmod \(change) '\(place)'")
        }
    }

    /// The members of a file; nil if it does not exist.
    private static func members(of path: String, owner: TrustedFile.Owner)
        throws(KeystoreError) -> [String: JSONValue]?
    {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            let error = SystemError.last
            guard error.number != ENOENT, error.number != ENOTDIR else { return nil }
            throw KeystoreError(
                operation: "read \(path)", code: .invalidInput, reason: "\(error)",
                recovery: "Check the owner and the mode of its directories.")
        }
        let contents = try TrustedFile.contents(of: path, owner: owner)
        if let place = JSONSyntax.firstError(in: Array(contents)) {
            throw unreadable(
                path,
                "it is not a JSON object: line \(place.line), column \(place.column) is not JSON",
                correct: "this place")
        }
        do {
            return try ReceivedJSON.decode([String: JSONValue].self, from: contents)
        } catch ReceivedJSON.Flaw.repeatedName(let name) {
            throw unreadable(path, "‘\(name)’ is set twice")
        } catch {
            throw unreadable(path, "it is not a JSON object")
        }
    }

    /// The settings of an object, which has no other members, so that a misspelt setting is an
    /// error.
    private static func settings(_ members: [String: JSONValue], in path: String)
        throws(KeystoreError) -> [Setting: String]
    {
        var values: [Setting: String] = [:]
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            guard let setting = Setting(rawValue: name) else {
                throw unreadable(path, Setting.unknown(name))
            }
            guard let text = setting.isFlag ? value.bool.map({ "\($0)" }) : value.string else {
                throw unreadable(
                    path,
                    "‘\(name)’ is \(setting.isFlag ? "neither true nor false" : "not a string")")
            }
            values[setting] = text
        }
        return values
    }

    private static func unreadable(
        _ path: String, _ reason: String, correct part: String = "the setting"
    ) -> KeystoreError {
        KeystoreError(
            operation: "read \(path)", code: .invalidInput, reason: reason,
            recovery: advice(toCorrect: part, in: path))
    }

    /// The next step for a wrong part of a file: only root can change a file of root.
    static func advice(toCorrect part: String, in path: String) -> Recovery {
        var status = stat()
        let isRoots = geteuid() != 0 && stat(path, &status) == 0 && status.st_uid == 0
        return isRoots
            ? "Ask the administrator of this machine to correct \(part) in \(path)."
            : "Correct \(part) in \(path)."
    }

    // MARK: Changes

    /// Replaces a user's file, with mode 0600. Creates its directory if it does not exist. Through a
    /// symbolic link, replaces the target.
    ///
    /// - Throws: ``KeystoreError``: `invalidInput` for a directory that other users can write,
    ///   `unavailable` if the file cannot be written.
    package func write() throws(KeystoreError) {
        let members = values.reduce(into: [String: JSONValue]()) { members, value in
            members[value.key.rawValue] =
                value.key.isFlag ? .bool(value.value == "true") : .string(value.value)
        }
        let target = URL(filePath: path).resolvingSymlinksInPath().path
        let directory = URL(filePath: target).deletingLastPathComponent().path
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        do { try OwnPlace.check(path) } catch { throw error.during("write \(path)") }
        do {
            try Self.makeDirectory(directory)
            // Before the file is written, because other users could replace it.
            try TrustedFile.check(directory)
            try Self.replace(target, with: Array(encoder.encode(members)) + [0x0A])
        } catch let error as KeystoreError {
            throw error
        } catch {
            throw unwritable(error)
        }
    }

    /// Makes a directory with mode 0700, and those on the way to it.
    private static func makeDirectory(_ path: String) throws(SystemError) {
        guard mkdir(path, 0o700) != 0, errno != EEXIST else { return }
        guard errno == ENOENT, path.contains("/") else { throw .last }
        try makeDirectory(URL(filePath: path).deletingLastPathComponent().path)
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw .last }
    }

    /// Replaces a file at once, with mode 0600: a reader finds the old contents or the new ones.
    private static func replace(_ path: String, with bytes: [UInt8]) throws(SystemError) {
        let temporary = "\(path).\(getpid())-\(UInt32.random(in: .min ... .max))"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .last }
        do throws(SystemError) {
            defer { close(descriptor) }
            try OutputFile.writeAll(bytes, to: descriptor)
            guard fsync(descriptor) == 0, rename(temporary, path) == 0 else { throw .last }
        } catch {
            unlink(temporary)
            throw error
        }
    }

    private func unwritable(_ error: any Error) -> KeystoreError {
        KeystoreError(
            operation: "write \(path)", code: .unavailable, reason: "\(error)",
            recovery: Recovery(WriteRehearsal.advice(after: error as? SystemError)))
    }
}
