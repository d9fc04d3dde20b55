import Foundation
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import Testing

@testable import LatchkeyDesktop

/// A user with a home, a runtime directory, and a gnome-keyring-daemon of its own, without a bus. The
/// user is this process's, or another one if this process is root.
final class KeyringUser: Sendable {
    static let password = SecretBytes("login-password".utf8)
    /// The account `nobody`: a message bus needs an account.
    private static let other = 65534

    let directory: TemporaryDirectory
    /// Whether programs run as another user than this process.
    private let isOther: Bool
    let place: UserPlace

    var keyringFile: String { "\(place.dataDirectory)/keyrings/login.keyring" }
    var control: String { "\(place.runtimeDirectory)/keyring/control" }

    /// - Parameter isOther: Whether the programs run as another user, which needs root.
    init(asOther isOther: Bool = false) throws {
        directory = try TemporaryDirectory()
        self.isOther = isOther && geteuid() == 0
        let (home, runtime) = (directory.path(of: "home"), directory.path(of: "run"))
        place = UserPlace(
            home: home, runtimeDirectory: runtime, dataDirectory: "\(home)/.local/share")
        for path in [home, runtime] {
            try #require(mkdir(path, 0o700) == 0)
            if self.isOther { try #require(chown(path, uid_t(Self.other), gid_t(Self.other)) == 0) }
        }
        if self.isOther { try #require(chmod(directory.path, 0o711) == 0) }
    }

    /// Starts a program as the user, with nothing but the user's environment.
    func start(_ program: String, _ arguments: [String], input: String = "") throws
        -> RunningProgram
    {
        let environment = [
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=\(place.home)",
            "XDG_RUNTIME_DIR=\(place.runtimeDirectory)", "QT_QPA_PLATFORM=offscreen",
        ]
        let words = ["/usr/bin/env", "-i"] + environment + [program] + arguments
        let switched =
            isOther
            ? [
                "/usr/bin/setpriv", "--reuid=\(Self.other)", "--regid=\(Self.other)",
                "--clear-groups",
            ] + words : words
        return try RunningProgram(
            URL(filePath: switched[0]), Array(switched.dropFirst()), input: input)
    }

    /// Starts the daemon and waits for its socket.
    func startDaemon(unlocking password: String? = nil) async throws -> RunningProgram {
        let daemon = try start(
            "gnome-keyring-daemon",
            ["--foreground", "--components=secrets"] + (password == nil ? [] : ["--unlock"]),
            input: password ?? "")
        try #require(await poll { access(self.control, F_OK) == 0 })
        return daemon
    }

    /// Creates the login keyring with a password, and leaves it closed.
    func createKeyring(password: String = "login-password") async throws {
        let daemon = try await startDaemon(unlocking: password)
        try #require(await poll { access(self.keyringFile, F_OK) == 0 })
        await daemon.stop()
        unlink(control)
    }

    /// The keyring with the daemon, whose secret tests and changes run in this process, which must
    /// be the user's.
    var keyring: GnomeKeyring { GnomeKeyring(place) }

    /// Runs latchkey-keyring as the user.
    func runHelper(_ arguments: [String], secret: SecretBytes) async throws -> (
        status: Int32, errors: String
    ) {
        let (program, file) = try share("latchkey-keyring", secret: secret)
        let words = arguments.map { "'\($0)'" }.joined(separator: " ")
        let run = try start("/bin/sh", ["-c", "exec '\(program)' \(words) < '\(file)'"])
        let errors = await run.remainder().errors
        return (await run.wait(), errors)
    }

    /// Copies a program and a secret to files that the user can access, which may not access the
    /// folder of the tests.
    func share(_ name: String, secret: SecretBytes) throws -> (program: String, file: String) {
        let (program, file) = (directory.path(of: name), directory.path(of: "secret"))
        if access(program, F_OK) != 0 {
            try directory.copyProgram(BuiltProduct.path(of: name), as: name)
        }
        try secret.withUnsafeBytes { Data($0) }.write(to: URL(filePath: file))
        try #require(chmod(file, 0o644) == 0)
        return (program, file)
    }
}

/// Ends a daemon after the body.
func whileRunning<R>(_ daemon: RunningProgram, _ body: () async throws -> R) async throws -> R {
    try await withTeardown({ await daemon.stop(SIGKILL) }, body)
}

extension CommonError {
    /// An error that equals each error with the code.
    static func of(_ code: CommonErrorCode) -> CommonError {
        CommonError(code: code, reason: "", recovery: "")
    }
}
