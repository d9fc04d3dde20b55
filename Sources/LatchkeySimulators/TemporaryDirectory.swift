public import FoundationEssentials
internal import Glibc
public import Latchkey

/// A directory of its own for one test or one simulator: readable by its owner only, and removed with all it holds
/// when the last reference goes.
public final class TemporaryDirectory: Sendable {
    /// The absolute path, without a slash at its end.
    public let path: String

    /// Makes `latchkey-XXXXXX` with mode 0700 under `$TMPDIR`, or under `/tmp` where that is not set.
    ///
    /// - Throws: `KeystoreError` with code `failed` when the directory can't be made.
    public init() throws(KeystoreError) {
        let parent = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/latchkey-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else {
            throw KeystoreError(
                operation: "make a temporary directory", code: .failed,
                reason: "\(parent) takes no new directory: \(String(cString: strerror(errno)))",
                recovery: "Set TMPDIR to a directory that you may write to.")
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

    /// Lends a new directory to `body` and removes it afterwards.
    public static func withDirectory<R>(_ body: (TemporaryDirectory) async throws -> R) async throws -> R {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        return try await body(directory)
    }
}
