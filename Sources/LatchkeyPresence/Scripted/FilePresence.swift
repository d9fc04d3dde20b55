internal import Glibc
public import Latchkey

/// Reads PINs from a file: one per line, in UTF-8, in the order in which they are asked for. For scripts.
///
/// A file that its group or others may read, or that belongs to another user, is refused: a PIN in it is no secret.
public final class FilePresence: PresenceAuthority {
    private let descriptor: Int32
    private let lines: DescriptorPresence

    /// Opens the file.
    ///
    /// - Throws: ``KeystoreError`` with code `invalidInput`, saying what is wrong with the file.
    public init(path: String, timeout: Duration = .seconds(120)) throws(KeystoreError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
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

    private static func objection(to descriptor: Int32) -> String? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return systemReason(errno) }
        if status.st_mode & S_IFMT == S_IFDIR { return "it is a directory" }
        // What is no regular file, a shell's process substitution for example, has no readers but us.
        guard status.st_mode & S_IFMT == S_IFREG else { return nil }
        if status.st_uid != geteuid() { return "it belongs to another user" }
        if status.st_mode & 0o077 != 0 { return "its group or others have rights to it" }
        return nil
    }

    private static func refusal(_ path: String, _ reason: String) -> KeystoreError {
        KeystoreError(
            operation: "read PINs from \(path)", code: .invalidInput, reason: reason,
            recovery: "Name a file of yours with mode 600.")
    }

    deinit { close(descriptor) }
}
