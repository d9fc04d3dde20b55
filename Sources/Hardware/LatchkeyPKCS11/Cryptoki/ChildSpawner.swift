internal import CPlatform
internal import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// Starts a program from the calling thread. The end of that thread kills a program that requested
/// it (prctl(2), `PR_SET_PDEATHSIG`). swift-subprocess can't be used: it starts its children from
/// threads that end.
enum ChildSpawner {
    /// - Parameters:
    ///   - command: A program, found in `PATH`, and its arguments.
    ///   - input: Its standard input.
    ///   - output: Its standard output.
    ///   - environment: Variables in addition to those of this process.
    /// - Returns: Its process ID; the caller reaps it.
    static func spawn(
        _ command: [String], input: Int32, output: Int32, environment: [String: String]
    ) throws(CryptokiError) -> pid_t {
        var files = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&files)
        defer { posix_spawn_file_actions_destroy(&files) }
        posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO)
        // Libraries open descriptors that children inherit: a descriptor of tpm2-tss would keep the
        // TPM busy.
        latchkey_spawn_close_from(&files, STDERR_FILENO + 1)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A new process group, so that only this process gets an interrupt from the terminal; no
        // signal blocked or ignored.
        posix_spawnattr_setpgroup(&attributes, 0)
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        var arguments = command.map { strdup($0) } + [nil]
        var variables =
            ProcessInfo.processInfo.environment.merging(environment) { $1 }
            .map { strdup("\($0)=\($1)") } + [nil]
        defer { for string in arguments + variables { free(string) } }
        var process = pid_t()
        let status = posix_spawnp(&process, command[0], &files, &attributes, &arguments, &variables)
        guard status == 0 else {
            throw .notIsolated(
                "\(command[0]) can't be started: \(SystemError(status))")
        }
        return process
    }
}
