public import FoundationEssentials
internal import Glibc
public import Latchkey
internal import LatchkeyPlatform

/// A private directory for a test or a simulator, with mode 0700. It is removed with its contents
/// when the last reference is released.
public final class TemporaryDirectory: Sendable {
    /// The absolute path, without a trailing slash.
    public let path: String

    /// Creates `latchkey-XXXXXX` with mode 0700 in `$TMPDIR`, or in `/tmp` if that is not set.
    ///
    /// - Throws: `KeystoreError` with code `failed` if the directory cannot be created.
    public init() throws(KeystoreError) {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/latchkey-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else {
            throw KeystoreError(
                operation: "create a temporary directory", code: .failed,
                reason: "mkdtemp failed in \(parent): \(SystemError.last)",
                recovery: "Set TMPDIR to a writable directory.")
        }
        path = String(cString: made)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    /// The path as a file URL.
    public var url: URL { URL(filePath: path, directoryHint: .isDirectory) }

    /// The path of `name` in this directory.
    public func path(of name: String) -> String { "\(path)/\(name)" }

    /// Runs `body` with a new directory, then removes the directory.
    public static func withDirectory<R>(_ body: (TemporaryDirectory) async throws -> R) async throws
        -> R
    {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        return try await body(directory)
    }
}

/// A lock between processes, held until the last reference is released, or if the process ends,
/// until no process has a copy of the descriptor.
final class FileLock: Sendable {
    private let descriptor: Int32

    /// Locks the file at `path`, and creates it if it does not exist.
    ///
    /// - Returns: nil if another process holds the lock or the file cannot be opened.
    init?(path: String) {
        let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { return nil }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            return nil
        }
        self.descriptor = descriptor
    }

    deinit {
        // A child process has a copy of the descriptor until its `exec`, so close(2) alone may
        // leave the lock to that copy.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
