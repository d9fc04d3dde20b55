internal import CPlatform
internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The check of this user's own login password by pam_unix's helper, which reads it on a pipe. A
/// copy of a secret under a text that is not the login password would be a lost copy.
package enum AccountPassword {
    /// The longest password that pam_unix reads.
    package static let maximumLength = 511
    private static let programs = ["/usr/sbin/unix_chkpwd", "/usr/bin/unix_chkpwd"]
    /// `PAM_AUTH_ERR` of Linux-PAM.
    private static let wrong: Int32 = 7

    /// Whether a text is the password of an account of this machine. Waits for the helper, at most
    /// until the deadline.
    ///
    /// - Parameter program: The helper; nil for the system's.
    /// - Throws: `CommonError`: `unsupported` for an account without a password in this machine's
    ///   files, or without the helper; `invalidInput` for a text that is no password;
    ///   `unavailable` without an answer.
    package static func isRight(
        _ password: SecretBytes, of user: String, until deadline: ContinuousClock.Instant,
        program: String? = nil
    ) throws(CommonError) -> Bool {
        let isAcceptable = password.withUnsafeBytes {
            (1...maximumLength).contains($0.count) && !$0.contains(0)
        }
        guard isAcceptable else {
            throw .invalidInput("the password is empty, too long or contains a zero byte")
        }
        guard let program = program ?? programs.first(where: { access($0, X_OK) == 0 }) else {
            throw unsupported("this machine has no unix_chkpwd")
        }
        var ends: [Int32] = [-1, -1]
        guard latchkey_pipe2(&ends, O_CLOEXEC) == 0 else { throw unavailable(.last) }
        // Before the start: a helper that does not read would cause SIGPIPE. It is shorter than a
        // pipe's buffer. The helper ends the password at a zero byte.
        let packet = SecretBytes(count: password.count + 1) { target in
            password.withUnsafeBytes { target.copyMemory(from: $0) }
        }
        let written = packet.withUnsafeBytes { write(ends[1], $0.baseAddress, $0.count) }
        let child: pid_t
        do throws(SystemError) {
            // The text is one password, never an option: an account without a password is refused.
            child = try HelperProgram.start(
                program, [user, "nonull"], environment: ["PATH": "/usr/sbin:/usr/bin"],
                descriptors: [ends[0], nil, nil])
            close(ends[0])
        } catch {
            ends.forEach { close($0) }
            throw unavailable(error)
        }
        close(ends[1])
        guard let status = exitStatus(of: child, until: deadline) else {
            throw unavailable(SystemError(ETIMEDOUT))
        }
        switch status {
        case 0 where written == packet.count: return true
        case wrong: return false
        default: throw unsupported("pam_unix cannot check the account (status \(status))")
        }
    }

    /// - Returns: nil if the child had to be killed, or ended by a signal.
    private static func exitStatus(of child: pid_t, until deadline: ContinuousClock.Instant)
        -> Int32?
    {
        var status: Int32 = 0
        while true {
            let ended = waitpid(child, &status, WNOHANG)
            if ended == child { break }
            guard ended == 0 || errno == EINTR, ContinuousClock.now < deadline else {
                kill(child, SIGKILL)
                waitpid(child, &status, 0)
                return nil
            }
            _ = try? Poll.wait(for: [], until: min(deadline, .now + .milliseconds(5)))
        }
        // WIFEXITED and WEXITSTATUS.
        return status & 0x7F == 0 ? status >> 8 & 0xFF : nil
    }

    private static func unsupported(_ reason: String) -> CommonError {
        .unsupported(
            "your login password cannot be checked: \(reason)",
            recovery: "Use an account of this machine, whose password is in /etc/shadow.")
    }

    private static func unavailable(_ error: SystemError) -> CommonError {
        CommonError(
            code: .unavailable,
            reason: "the program that checks the login password failed: \(error)",
            recovery: "Try again.")
    }
}
