package import Foundation
internal import Glibc
internal import Latchkey
package import LatchkeySimulators

/// A process of `latchkey-presenced` with the bus, reader and TPM of a test.
package actor PresenceBrokerProcess {
    /// The maximum of `--time-limit`, in seconds, so that a prompt does not end while a busy
    /// machine starts the programs of a test.
    package static let longestTimeLimit = 25

    /// The directory of the broker's key and user records.
    package nonisolated let stateDirectory: TemporaryDirectory
    private let program: URL
    private let environment: [String]
    private let arguments: [String]
    private let privileges: [String]
    /// Starts the rest of the command with a listening socket.
    private let listener: [String]
    private let busAddress: String
    private var process: RunningProgram?

    /// - Parameters:
    ///   - program: The built program.
    ///   - timeLimit: The time limit for the user, in seconds.
    ///   - seesPrints: Whether the broker may read fprintd's files.
    package init(
        _ program: URL, tcti: String, reader: VirtualFingerprintReader,
        timeLimit: Int = longestTimeLimit,
        seesPrints: Bool = true
    ) async throws {
        try await self.init(
            program, tcti: tcti, busAddress: reader.busAddress, timeLimit: timeLimit,
            prints: seesPrints ? reader.printsDirectory : nil)
    }

    /// Starts a broker on any bus.
    ///
    /// - Parameters:
    ///   - prints: The directory of fprintd's files, or nil if the broker may not read them.
    ///   - socket: The path of a socket that the broker gets as from systemd; nil for none.
    ///   - patience: The factor of the time limits that are not for the user.
    ///   - user: The broker's UID, with `CAP_DAC_READ_SEARCH` as the only capability, as in its
    ///     unit; needs root. nil for the user that runs the tests.
    package init(
        _ program: URL, tcti: String, busAddress: String, timeLimit: Int = longestTimeLimit,
        prints: String? = nil, socket: String? = nil, patience: Int = 20,
        as user: UInt32? = nil
    ) async throws {
        self.program = program
        stateDirectory = try TemporaryDirectory()
        self.busAddress = busAddress
        environment = [
            "DBUS_SYSTEM_BUS_ADDRESS=\(busAddress)", "LATCHKEY_TCTI=\(tcti)",
            "STATE_DIRECTORY=\(stateDirectory.path)", "TSS2_LOG=all+NONE",
        ]
        arguments = [
            "--time-limit", "\(timeLimit)", "--prints", prints ?? "/nowhere", "--patience",
            "\(patience)",
        ]
        listener = socket.map { ["/usr/bin/python3", "-c", Self.listening, $0] } ?? []
        if let user {
            chown(stateDirectory.path, user, user)
            privileges = [
                "/usr/bin/setpriv", "--reuid=\(user)", "--regid=\(user)", "--clear-groups",
                "--no-new-privs",
                "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
                "--bounding-set=-all,+dac_read_search",
            ]
        } else {
            privileges = []
        }
        try await start()
    }

    /// Listens as systemd does (sd_listen_fds(3)), and becomes the program.
    private static let listening = """
        import os, socket, sys
        path = sys.argv[1]
        if os.path.exists(path): os.unlink(path)
        s = socket.socket(socket.AF_UNIX); s.bind(path); os.chmod(path, 0o666); s.listen(128)
        if s.fileno() != 3: os.dup2(s.fileno(), 3)
        os.set_inheritable(3, True)
        os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
        os.execvp(sys.argv[2], sys.argv[2:])
        """

    /// Runs `body` with a running broker, then ends the broker.
    package static func withRunning<R>(
        _ program: URL, tcti: String, reader: VirtualFingerprintReader,
        timeLimit: Int = longestTimeLimit,
        seesPrints: Bool = true,
        _ body: (PresenceBrokerProcess) async throws -> R
    ) async throws -> R {
        let broker = try await PresenceBrokerProcess(
            program, tcti: tcti, reader: reader, timeLimit: timeLimit, seesPrints: seesPrints)
        return try await withTeardown({ await broker.stop(SIGKILL) }) { try await body(broker) }
    }

    /// The process ID, or nil if the broker does not run.
    package var processIdentifier: Int32? { process?.id }

    /// Starts the broker with its earlier state, and waits until it owns its bus name.
    ///
    /// - Parameter isShortLived: Whether it may end before that; then this does not wait.
    package func start(isShortLived: Bool = false) async throws {
        guard process == nil else { return }
        let process = try RunningProgram(
            URL(filePath: "/usr/bin/env"),
            environment + listener + privileges + [program.path] + arguments)
        self.process = process
        guard !isShortLived else { return }
        let waiting = try RunningProgram(
            URL(filePath: "/usr/bin/gdbus"),
            [
                "wait", "--address", busAddress, "--timeout", "\(hangLimit.components.seconds)",
                "org.latchkey.Presence1",
            ])
        guard await waiting.wait() == 0 else {
            self.process = nil
            kill(process.id, SIGKILL)
            let errors = await process.remainder().errors
            throw KeystoreError(
                operation: "start latchkey-presenced", code: .unavailable,
                reason: "it did not own its bus name: \(errors)",
                recovery: "Read the broker's output.")
        }
    }

    /// Waits for the broker's exit.
    ///
    /// - Returns: As ``stop(_:)``.
    package func waitForEnd() async -> Int32? {
        guard let process else { return nil }
        let status = await process.wait()
        self.process = nil
        return status
    }

    /// Sends a signal and waits for the broker's exit.
    ///
    /// - Returns: The exit code, or the number of the signal that ended the broker.
    @discardableResult
    package func stop(_ signal: Int32 = SIGTERM) async -> Int32? {
        guard let process else { return nil }
        self.process = nil
        return await process.stop(signal)
    }
}
