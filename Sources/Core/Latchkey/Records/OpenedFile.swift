internal import Glibc

/// A database file that other programs must not replace while it is open. SQLite would continue to
/// read and write the old file, and the changes would be lost. A database that SQLite reads as if it
/// could not change (`immutable`) must not change either.
package struct OpenedFile: Sendable {
    private enum Rule {
        case immutable(State?)
        /// Other programs may write it, but not put another file in its place.
        case inPlace(Identity?)
    }

    private struct Identity: Hashable {
        let device, inode: UInt

        /// - Returns: nil for a missing file.
        init?(_ path: String) {
            guard let status = OpenedFile.status(of: path) else { return nil }
            self.init(status)
        }

        init(_ status: stat) { (device, inode) = (UInt(status.st_dev), UInt(status.st_ino)) }
    }

    private struct State: Hashable {
        let identity: Identity
        let size, seconds, nanoseconds: Int

        /// - Returns: nil for a missing file.
        init?(_ path: String) {
            guard let status = OpenedFile.status(of: path) else { return nil }
            (identity, size) = (Identity(status), Int(status.st_size))
            (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
        }
    }

    private static func status(of path: String) -> stat? {
        var status = stat()
        return stat(path, &status) == 0 ? status : nil
    }

    private let path: String
    private let rule: Rule

    /// An immutable database.
    init(immutable path: String) { (self.path, rule) = (path, .immutable(State(path))) }

    /// A database that this process has opened with a log.
    package init(open path: String) {
        self.path = path
        rule = .inPlace(Identity(path))
    }

    /// Whether there is a write-ahead log, or it is not known.
    static func hasLog(_ path: String) -> Bool {
        var status = stat()
        return lstat(path + "-wal", &status) == 0 || errno != ENOENT
    }

    /// - Throws: ``CommonError``: `conflict` if a program has replaced or deleted the database since
    ///   it was opened; `unavailable` if it has written an immutable one.
    package func check() throws(CommonError) {
        switch rule {
        case .immutable(let state):
            guard State(path) == state, !Self.hasLog(path) else {
                throw CommonError(
                    code: .unavailable,
                    reason: "another program has changed the store, which was opened for reading",
                    recovery: "Open the store again.")
            }
        case .inPlace(let identity):
            guard Identity(path) == identity else {
                throw CommonError.conflict(
                    "another program replaced or deleted the store's file",
                    recovery: "Start this program again, so that it opens the new file.")
            }
        }
    }
}
