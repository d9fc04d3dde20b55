package import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// The check of a file or directory that only this process's user and root may change.
///
/// Programs read their configuration, keys and trust anchors only from such files, because they name
/// the programs to run, the servers that receive secrets, and the accepted certificates.
package enum TrustedFile {
    /// The maximum number of symbolic links in a path, as in Linux.
    private static let maximumLinks = 40

    /// Checks a file or directory, and each directory and symbolic link on the way to it from the
    /// root. A user who can write one of the directories can replace the file.
    ///
    /// All must belong to this user or root, and only the owner may write them. The exception is a
    /// directory with the sticky bit, such as `/tmp`, in which other users cannot replace the entries
    /// of this user. A file's own directory may not be of this kind, nor a directory that is checked:
    /// other users can create files in it.
    ///
    /// - Throws: ``CommonError`` with code `invalidInput`.
    package static func check(_ path: String) throws(CommonError) {
        // Reversed: the last element is the next component.
        var pending = components(path).reversed() as [Substring]
        if !path.hasPrefix("/") {
            pending += components(FileManager.default.currentDirectoryPath).reversed()
        }
        var directories = [Directory(path: "/", isShared: try check("/", of: path, isLast: false))]
        var links = 0
        while let component = pending.popLast() {
            guard component != ".." else {
                if directories.count > 1 { directories.removeLast() }
                continue
            }
            let parent = directories[directories.endIndex - 1].path
            let next = parent == "/" ? "/\(component)" : "\(parent)/\(component)"
            if let target = try link(next, of: path) {
                links += 1
                guard links <= maximumLinks else {
                    throw unreadable(path, next, SystemError(ELOOP))
                }
                pending += components(target).reversed()
                if target.hasPrefix("/") { directories.removeLast(directories.count - 1) }
                continue
            }
            let isShared = try check(next, of: path, isLast: pending.isEmpty)
            directories.append(Directory(path: next, isShared: isShared))
        }
        for own in directories.suffix(isDirectory(directories) ? 1 : 2) where own.isShared {
            throw writable(path, own.path)
        }
    }

    /// Checks a file, and reads it.
    ///
    /// - Throws: ``CommonError`` with code `invalidInput`, also if it is not a regular file.
    package static func contents(of path: String) throws(CommonError) -> Data {
        try check(path)
        var status = stat()
        guard stat(path, &status) == 0 else { throw unreadable(path, path, .last) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw refusal(
                path, "it is not a regular file", recovery: "Name a regular file.")
        }
        do {
            return try Data(contentsOf: URL(filePath: path))
        } catch {
            throw refusal(
                path, "it cannot be read (\(error))", recovery: "Check its permissions.")
        }
    }

    private struct Directory {
        let path: String
        /// Whether other users can create files in it, but not replace those of this user.
        let isShared: Bool
    }

    private static func isDirectory(_ way: [Directory]) -> Bool {
        var status = stat()
        guard let last = way.last, lstat(last.path, &status) == 0 else { return false }
        return status.st_mode & S_IFMT == S_IFDIR
    }

    private static func components(_ path: String) -> [Substring] {
        path.split(separator: "/").filter { $0 != "." }
    }

    /// The target of a symbolic link; nil for a file of another kind.
    private static func link(_ place: String, of path: String) throws(CommonError) -> String? {
        var status = stat()
        guard lstat(place, &status) == 0 else { throw unreadable(path, place, .last) }
        guard status.st_mode & S_IFMT == S_IFLNK else { return nil }
        try checkOwner(status, of: place, path)
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(place, &target, target.count)
        guard count > 0, count < target.count else { throw unreadable(path, place, .last) }
        return String(decoding: target.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Checks one file or directory, which is no symbolic link.
    ///
    /// - Returns: Whether it is a shared directory.
    private static func check(
        _ place: String, of path: String, isLast: Bool
    ) throws(CommonError) -> Bool {
        var status = stat()
        guard lstat(place, &status) == 0 else { throw unreadable(path, place, .last) }
        try checkOwner(status, of: place, path)
        guard status.st_mode & 0o022 != 0 else { return false }
        let isSticky = status.st_mode & S_IFMT == S_IFDIR && status.st_mode & S_ISVTX != 0
        guard isSticky, !isLast else { throw writable(path, place) }
        return true
    }

    private static func checkOwner(_ status: stat, of place: String, _ path: String)
        throws(CommonError)
    {
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw refusal(
                path, "\(place) belongs to another user",
                recovery: "Remove it, or take ownership of it (chown) if you trust its contents.")
        }
    }

    private static func writable(_ path: String, _ place: String) -> CommonError {
        refusal(
            path, "other users can write \(place)",
            recovery: "Check the file's contents, then run: chmod go-w '\(place)'")
    }

    private static func unreadable(_ path: String, _ place: String, _ error: SystemError)
        -> CommonError
    {
        refusal(
            path, "\(place) cannot be read: \(error)",
            recovery: "Check the path, and the owner and mode of \(place).")
    }

    private static func refusal(_ path: String, _ reason: String, recovery: String)
        -> CommonError
    {
        CommonError(
            operation: "read \(path)", code: .invalidInput, reason: reason, recovery: recovery)
    }
}
