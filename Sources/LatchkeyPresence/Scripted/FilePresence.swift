internal import Glibc
public import Latchkey

/// Reads PINs from a file or FIFO: one per line, in UTF-8, in the order in which they are asked for. For scripts.
///
/// One to which its group or others have rights, or that belongs to another user than this one and root, is refused: a
/// PIN in it is no secret. A shell's process substitution is a FIFO of the user's own.
public final class FilePresence: PresenceAuthority {
    private let descriptor: Int32
    private let lines: DescriptorPresence

    /// Opens the file. For a FIFO's first writer nobody waits here, but when a PIN is asked for.
    ///
    /// - Throws: `KeystoreError` with code `invalidInput`, saying what is wrong with the file.
    public init(path: String, timeout: Duration = .seconds(120)) throws(KeystoreError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw Self.refusal(path, systemReason(errno)) }
        if let reason = Self.objection(to: descriptor) {
            close(descriptor)
            throw Self.refusal(path, reason)
        }
        self.descriptor = descriptor
        lines = DescriptorPresence(descriptor, timeout: timeout)
    }

    public func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        try await lines.pin(request)
    }

    /// Writes a line to the process's standard error.
    public func notice(_ notice: PresenceNotice) async {
        await lines.notice(notice)
    }

    private static func objection(to descriptor: Int32) -> String? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return systemReason(errno) }
        switch status.st_mode & S_IFMT {
        case S_IFREG, S_IFIFO: break
        case S_IFDIR: return "it is a directory"
        default: return "it is neither a regular file nor a FIFO"
        }
        if status.st_uid != geteuid() && status.st_uid != 0 { return "it belongs to another user" }
        if status.st_mode & 0o077 != 0 { return "its group or others have rights to it" }
        return nil
    }

    private static func refusal(_ path: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "read PINs", code: .invalidInput, reason: "the file \(path) can't be used: \(reason)",
            recovery: "Name a file of yours with mode 600.")
    }

    deinit { close(descriptor) }
}
