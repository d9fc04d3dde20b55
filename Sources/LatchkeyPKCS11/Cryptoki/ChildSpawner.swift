internal import CPKCS11
internal import FoundationEssentials
internal import Glibc

/// Starts a program from the thread that calls, which is the thread that the program may choose to die with
/// (prctl(2), `PR_SET_PDEATHSIG`). swift-subprocess starts its children from threads that end.
enum ChildSpawner {
    /// - Parameters:
    ///   - command: a program, found in `PATH`, and its arguments.
    ///   - connection: its standard input and output.
    ///   - environment: what it has beside our own variables.
    /// - Returns: its process identifier; the caller reaps it.
    static func spawn(
        _ command: [String], connectedTo connection: Int32, environment: [String: String]
    ) throws(CryptokiError) -> pid_t {
        var files = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&files)
        defer { posix_spawn_file_actions_destroy(&files) }
        posix_spawn_file_actions_adddup2(&files, connection, STDIN_FILENO)
        posix_spawn_file_actions_adddup2(&files, connection, STDOUT_FILENO)
        // Libraries open descriptors that children inherit: one of tpm2-tss, held for good, keeps a TPM busy.
        latchkey_spawn_close_from(&files, STDERR_FILENO + 1)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A group of its own, so that an interrupt from the terminal is ours to act on; no signal blocked or ignored.
        posix_spawnattr_setpgroup(&attributes, 0)
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))

        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        var process = pid_t()
        let status = withCStrings(command) { arguments in
            withCStrings(variables.map { "\($0)=\($1)" }) { environment in
                guard let program = arguments[0] else { return ENOENT }
                return posix_spawnp(&process, program, &files, &attributes, arguments, environment)
            }
        }
        guard status == 0 else {
            throw .notIsolated("\(command[0]) can't be started: \(String(cString: strerror(status)))")
        }
        return process
    }

    /// Lends the strings as C has them: an array that ends with null.
    private static func withCStrings<R>(
        _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> R
    ) -> R {
        let pointers = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>.allocate(capacity: strings.count + 1)
        for (index, string) in strings.enumerated() { pointers[index] = strdup(string) }
        pointers[strings.count] = nil
        defer {
            for index in strings.indices { free(pointers[index]) }
            pointers.deallocate()
        }
        return body(pointers)
    }
}
