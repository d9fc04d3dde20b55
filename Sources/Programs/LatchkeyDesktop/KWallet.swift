internal import CPlatform
internal import Crypto
internal import CryptoExtras
internal import FoundationEssentials
internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The wallet of KDE's wallet daemon, which takes its key only at its start, as pam_kwallet5 gives
/// it: 56 bytes on a pipe, and then the environment of the session on a socket.
package struct KWallet: Sendable {
    /// PBKDF2-HMAC-SHA512, as pam_kwallet5 derives the key.
    private static let rounds = 50_000
    package static let saltLength = 56
    /// The daemons, the newest first.
    private static let daemons = [
        "/usr/bin/ksecretd", "/usr/bin/kwalletd6", "/usr/bin/kwalletd5",
    ]

    private let place: UserPlace

    package init(_ place: UserPlace) { self.place = place }

    /// The socket at which the daemon waits for the session's environment. The session needs this
    /// path in `PAM_KWALLET5_LOGIN`.
    package var socketPath: String { "\(place.runtimeDirectory)/kwallet5.socket" }

    /// The installed wallet daemon; nil if there is none.
    package static var installedDaemon: String? { daemons.first { access($0, X_OK) == 0 } }

    /// The salt of the wallet `kdewallet`.
    ///
    /// - Throws: `CommonError`: `notFound` without a file, because the wallet then has no password;
    ///   `refused` for a file of another length, kind or owner.
    package func salt() throws(CommonError) -> [UInt8] {
        let path = "\(place.dataDirectory)/kwalletd/kdewallet.salt"
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw .notFound(
                "the wallet's salt \(path) cannot be read: \(SystemError.last)",
                recovery: "Sign in to Plasma with your login password once, so that it is created.")
        }
        defer { close(descriptor) }
        var status = stat()
        var bytes = [UInt8](repeating: 0, count: Self.saltLength + 1)
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            status.st_uid == geteuid(),
            read(descriptor, &bytes, bytes.count) == Self.saltLength
        else {
            throw CommonError(
                code: .refused,
                reason: "\(path) is not a file of this user with \(Self.saltLength) bytes",
                recovery: "Restore the file from a backup.")
        }
        return Array(bytes.prefix(Self.saltLength))
    }

    /// The key of a wallet with a password.
    package static func key(password: SecretBytes, salt: [UInt8]) throws(CommonError) -> SecretBytes
    {
        guard !password.isEmpty, salt.count == saltLength else {
            throw .invalidInput("the wallet's password is empty, or its salt has another length")
        }
        do {
            var copy = password.withUnsafeBytes { Data($0) }
            defer { copy.resetBytes(in: copy.startIndex..<copy.endIndex) }
            return try KDF.Insecure.PBKDF2.deriveKey(
                from: copy, salt: salt, using: .sha512,
                outputByteCount: KeyringKind.kwallet.secretLength, unsafeUncheckedRounds: rounds
            ).withUnsafeBytes { key in
                SecretBytes(count: key.count) { $0.copyMemory(from: key) }
            }
        } catch {
            throw CommonError(
                code: .failed, reason: "the wallet's key cannot be derived: \(error)",
                recovery: "Report this message.")
        }
    }

    /// Starts the wallet daemon with the key. The daemon outlives this process; it opens the wallet
    /// when the session sends its environment to ``socketPath``.
    ///
    /// - Parameters:
    ///   - daemon: The daemon's path.
    ///   - deadline: Of the wait until the daemon has taken the key.
    /// - Returns: The daemon's process ID. It is a child of this process.
    /// - Throws: `CommonError`: `invalidInput` for a key of another length, `unavailable` if the
    ///   daemon did not start, or ended or left the key in the pipe until the deadline, which ends
    ///   it.
    @discardableResult
    package func handOver(
        _ key: SecretBytes, to daemon: String, until deadline: ContinuousClock.Instant
    ) throws(CommonError) -> Int32 {
        guard key.count == KeyringKind.kwallet.secretLength else {
            throw .invalidInput("a wallet's key has \(KeyringKind.kwallet.secretLength) bytes")
        }
        let listener = try listeningSocket()
        defer { close(listener) }
        var ends: [Int32] = [-1, -1]
        guard latchkey_pipe2(&ends, O_CLOEXEC) == 0 else { throw Self.unavailable(.last) }
        defer { close(ends[1]) }
        // Before the start: a daemon that does not read would cause SIGPIPE. It is less than a pipe's
        // buffer, so the call does not wait.
        let written = key.withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
        guard written == key.count else {
            close(ends[0])
            throw Self.unavailable(.last)
        }
        let child: pid_t
        do throws(SystemError) {
            defer { close(ends[0]) }
            child = try HelperProgram.start(
                daemon, ["--pam-login", "3", "4"], environment: environment,
                descriptors: [nil, nil, nil, ends[0], listener],
                hasOwnSession: true)
        } catch {
            throw CommonError(
                code: .unavailable, reason: "\(daemon) cannot be started: \(error)",
                recovery: "Install the wallet daemon.")
        }
        try awaitReading(of: ends[1], by: child, until: deadline)
        return child
    }

    /// Waits until the daemon has closed its end of the pipe.
    private func awaitReading(
        of pipe: Int32, by child: pid_t, until deadline: ContinuousClock.Instant
    ) throws(CommonError) {
        let isClosed = (try? Poll.wait(for: pipe, 0, until: deadline)) ?? false
        var status: Int32 = 0
        let hasEnded = waitpid(child, &status, WNOHANG) == child
        guard isClosed, !hasEnded else {
            if !hasEnded {
                kill(child, SIGKILL)
                waitpid(child, &status, 0)
            }
            throw CommonError(
                code: .unavailable,
                reason: hasEnded
                    ? "the wallet daemon ended" : "the wallet daemon did not take the key",
                recovery: "Look for its messages in the journal.")
        }
    }

    private func listeningSocket() throws(CommonError) -> Int32 {
        guard let address = UNIXSocketAddress(path: socketPath) else {
            throw Self.unavailable(SystemError(ENAMETOOLONG))
        }
        do throws(SystemError) {
            // A socket of an earlier session. No probe: it would be the one connection that a daemon
            // accepts.
            guard unlink(socketPath) == 0 || errno == ENOENT else { throw SystemError.last }
            let descriptor = try address.boundSocket()
            guard chmod(socketPath, 0o600) == 0, listen(descriptor, 5) == 0 else {
                let error = SystemError.last
                close(descriptor)
                throw error
            }
            return descriptor
        } catch {
            throw Self.unavailable(error)
        }
    }

    /// What the daemon needs before it has the session's environment. Without
    /// `PAM_KWALLET5_LOGIN` it ignores the key.
    private var environment: [String: String] {
        [
            "HOME": place.home, "XDG_RUNTIME_DIR": place.runtimeDirectory,
            "XDG_DATA_HOME": place.dataDirectory, "PATH": "/usr/bin:/bin",
            "PAM_KWALLET5_LOGIN": socketPath,
        ]
    }

    private static func unavailable(_ error: SystemError) -> CommonError {
        CommonError(
            code: .unavailable,
            reason: "the wallet's socket or pipe cannot be created: \(error)",
            recovery: "Sign in again.")
    }
}
