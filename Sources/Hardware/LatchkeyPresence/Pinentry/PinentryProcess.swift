internal import CPlatform
internal import Glibc
internal import Latchkey
internal import LatchkeyPlatform

/// A running pinentry program. At its end the program is asked to exit, then terminated, then
/// killed.
struct PinentryProcess: ~Copyable {
    /// A socket to its standard input and output. Unlike a pipe, writing to a socket whose program
    /// has ended does not raise SIGPIPE in the app.
    let descriptor: Int32
    private let id: pid_t

    /// - Throws: ``KeystoreError`` with code `unavailable` if the program cannot be started.
    init(program: String, environment: [String: String]) throws(KeystoreError) {
        var ends: [Int32] = [-1, -1]
        guard
            socketpair(
                AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) == 0
        else {
            throw Self.unavailable(program, errno)
        }
        defer { close(ends[1]) }
        var child: pid_t = 0
        let error = Self.spawn(program, environment, input: ends[1], into: &child)
        guard error == 0 else {
            close(ends[0])
            throw Self.unavailable(program, error)
        }
        descriptor = ends[0]
        id = child
    }

    /// - Returns: Whether the command was sent.
    func send(_ command: String) -> Bool {
        Poll.send((command + "\n").utf8, to: descriptor)
    }

    /// Sends `BYE` and gives the program half a second to restore the terminal.
    func leave(_ wakeUp: WakeUp) {
        guard send("BYE") else { return }
        let reader = DeadlineReader(
            descriptor: descriptor, wakeUp: wakeUp, deadline: .now + .milliseconds(500))
        while case .bytes = reader.readByte().event {}
    }

    deinit {
        close(descriptor)
        kill(id, SIGTERM)
        // A form at a terminal restores it when it is terminated, within half a second.
        for _ in 0..<50 {
            if waitpid(id, nil, WNOHANG) != 0 { return }
            usleep(10_000)
        }
        kill(id, SIGKILL)
        waitpid(id, nil, 0)
    }

    private static func spawn(
        _ program: String, _ environment: [String: String], input: Int32, into child: inout pid_t
    ) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, input, 0)
        posix_spawn_file_actions_adddup2(&actions, input, 1)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        // Some libraries open files without close-on-exec. A descriptor of tpm2-tss would keep a
        // software TPM busy.
        latchkey_spawn_close_from(&actions, STDERR_FILENO + 1)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // This thread may block signals that the program needs.
        var mask = sigset_t()
        sigemptyset(&mask)
        posix_spawnattr_setsigmask(&attributes, &mask)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        var arguments: [UnsafeMutablePointer<CChar>?] = [strdup(program), nil]
        var variables = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { (arguments + variables).forEach { free($0) } }
        return posix_spawnp(&child, program, &actions, &attributes, &arguments, &variables)
    }

    private static func unavailable(_ program: String, _ number: Int32) -> KeystoreError {
        .unavailable(
            "the program ‘\(program)’ cannot be started: \(SystemError(number))",
            recovery: Recovery("Install pinentry-curses or another pinentry.").then(
                KeystoreError.orOtherPINSource)
        )
    }
}
