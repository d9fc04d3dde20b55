internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The directories of the user whose keyring a program opens. The program runs as this user, so a
/// path that the user controls gives it no other rights.
package struct UserPlace: Sendable {
    package let home: String
    /// `XDG_RUNTIME_DIR`.
    package let runtimeDirectory: String
    /// `XDG_DATA_HOME`, or its default.
    package let dataDirectory: String

    init(home: String, runtimeDirectory: String, dataDirectory: String) {
        (self.home, self.runtimeDirectory) = (home, runtimeDirectory)
        self.dataDirectory = dataDirectory
    }

    /// Reads the directories from an environment.
    ///
    /// - Throws: `CommonError`: `refused` for root, and for a runtime directory of which this
    ///   process's user is not the only one with access; `unavailable` without the directories.
    package init(environment: [String: String]) throws(CommonError) {
        guard geteuid() != 0, getuid() == geteuid(), getgid() == getegid() else {
            throw CommonError(
                code: .refused, reason: "root has no keyring, and the program changes no user",
                recovery: "Run it as the user of the keyring.")
        }
        home = try Self.directory("HOME", environment)
        runtimeDirectory = try Self.directory("XDG_RUNTIME_DIR", environment)
        let data = environment["XDG_DATA_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        dataDirectory = data ?? "\(home)/.local/share"
        var status = stat()
        guard lstat(runtimeDirectory, &status) == 0 else {
            throw Self.unusable(runtimeDirectory, SystemError.last.description)
        }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
            status.st_mode & 0o077 == 0
        else {
            throw CommonError(
                code: .refused,
                reason: "\(runtimeDirectory) is no directory of this user alone",
                recovery: "Sign in again, so that the system creates it.")
        }
    }

    private static func directory(_ name: String, _ environment: [String: String])
        throws(CommonError) -> String
    {
        guard let path = environment[name], path.hasPrefix("/") else {
            throw CommonError(
                code: .unavailable, reason: "\(name) is not set to an absolute path",
                recovery: "Run the program in the session of the user.")
        }
        return path
    }

    private static func unusable(_ path: String, _ reason: String) -> CommonError {
        CommonError(
            code: .unavailable, reason: "\(path) cannot be used: \(reason)",
            recovery: "Run the program in the session of the user.")
    }
}
