internal import CPlatform
internal import Glibc
internal import LatchkeyPlatform

/// The start of a program that gets some descriptors of this one, and nothing else: no other
/// descriptors, no environment of this process, no blocked signals.
enum HelperProgram {
    /// `POSIX_SPAWN_SETSID`, which Swift's Glibc module does not have: signals to the session's
    /// terminal do not reach the program.
    private static let ownSession: Int16 = 0x80

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - descriptors: The program's descriptors from 0 on; nil for `/dev/null`.
    ///   - hasOwnSession: Whether signals to this process's terminal must not reach it.
    static func start(
        _ program: String, _ arguments: [String], environment: [String: String],
        descriptors: [Int32?], hasOwnSession: Bool = false
    ) throws(SystemError) -> pid_t {
        // dup2(2) onto itself would keep close-on-exec, and onto another one would close it.
        let high = descriptors.map { $0.map { fcntl($0, F_DUPFD_CLOEXEC, 10) } }
        defer { for case .some(let copy) in high where copy >= 0 { close(copy) } }
        guard high.allSatisfy({ $0 ?? 0 >= 0 }) else { throw .last }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (number, copy) in zip(Int32(0)..., high) {
            if let copy {
                posix_spawn_file_actions_adddup2(&actions, copy, number)
            } else {
                posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
            }
        }
        latchkey_spawn_close_from(&actions, Int32(descriptors.count))
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK) | (hasOwnSession ? ownSession : 0))
        var words = ([program] + arguments).map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { (words + variables).forEach { free($0) } }
        var child: pid_t = 0
        let error = posix_spawn(&child, program, &actions, &attributes, &words, &variables)
        guard error == 0 else { throw SystemError(error) }
        return child
    }
}
