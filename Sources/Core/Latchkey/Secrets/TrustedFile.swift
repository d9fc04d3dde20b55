package import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// The check of a file or directory that only this process's user and root may change.
///
/// Programs read their configuration, keys and trust anchors only from such files, because they name
/// the programs to run, the servers that receive secrets, and the accepted certificates.
package enum TrustedFile {
    /// The users who may own a file, and the directories and links on the way to it.
    package enum Owner: Sendable {
        /// This process's user, or root.
        case userOrRoot
        /// Root only: for a file with rules that this process's user must not change.
        case root

        fileprivate func includes(_ user: uid_t) -> Bool {
            user == 0 || (self == .userOrRoot && user == geteuid())
        }
    }

    /// The maximum number of symbolic links in a path, as in Linux.
    private static let maximumLinks = 40

    /// Checks a file or directory, and each directory and symbolic link on the way to it from the
    /// root. A user who can write one of the directories can replace the file.
    ///
    /// All must belong to an accepted owner, and only the owner may write them. The exception is a
    /// directory with the sticky bit, such as `/tmp`, in which other users cannot replace the entries
    /// of this user. A file's own directory may not be of this kind, nor a directory that is checked:
    /// other users can create files in it.
    ///
    /// - Throws: ``CommonError`` with code `invalidInput`.
    package static func check(_ path: String, owner: Owner = .userOrRoot) throws(CommonError) {
        // Reversed: the last element is the next component.
        var pending = components(path).reversed() as [Substring]
        if !path.hasPrefix("/") {
            pending += components(FileManager.default.currentDirectoryPath).reversed()
        }
        var directories = [
            Directory(path: "/", isShared: try check("/", of: path, owner, isLast: false))
        ]
        var links = 0
        while let component = pending.popLast() {
            guard component != ".." else {
                if directories.count > 1 { directories.removeLast() }
                continue
            }
            let parent = directories[directories.endIndex - 1].path
            let next = parent == "/" ? "/\(component)" : "\(parent)/\(component)"
            if let target = try link(next, of: path, owner) {
                links += 1
                guard links <= maximumLinks else {
                    throw unreadable(path, next, SystemError(ELOOP))
                }
                pending += components(target).reversed()
                if target.hasPrefix("/") { directories.removeLast(directories.count - 1) }
                continue
            }
            let isShared = try check(next, of: path, owner, isLast: pending.isEmpty)
            directories.append(Directory(path: next, isShared: isShared))
        }
        for own in directories.suffix(isDirectory(directories) ? 1 : 2) where own.isShared {
            throw writable(path, own.path)
        }
    }

    /// Checks a file, and reads it.
    ///
    /// - Throws: ``CommonError`` with code `invalidInput`, also if it is not a regular file.
    package static func contents(of path: String, owner: Owner = .userOrRoot)
        throws(CommonError) -> Data
    {
        try check(path, owner: owner)
        // Without O_NONBLOCK, opening a FIFO waits for a writer.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw unreadable(path, owner, .last) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw unreadable(path, owner, .last) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw refusal(
                path, "it is not a regular file", recovery: "Name a regular file.")
        }
        var bytes = Data()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw unreadable(path, owner, .last) }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
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
    private static func link(_ place: String, of path: String, _ owner: Owner)
        throws(CommonError) -> String?
    {
        var status = stat()
        guard lstat(place, &status) == 0 else { throw unreadable(path, place, .last) }
        guard status.st_mode & S_IFMT == S_IFLNK else { return nil }
        try checkOwner(status, owner, of: place, path)
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(place, &target, target.count)
        guard count > 0, count < target.count else { throw unreadable(path, place, .last) }
        return String(decoding: target.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Checks one file or directory, which is no symbolic link.
    ///
    /// - Returns: Whether it is a shared directory.
    private static func check(
        _ place: String, of path: String, _ owner: Owner, isLast: Bool
    ) throws(CommonError) -> Bool {
        var status = stat()
        guard lstat(place, &status) == 0 else { throw unreadable(path, place, .last) }
        try checkOwner(status, owner, of: place, path)
        guard status.st_mode & 0o022 != 0 else { return false }
        let isSticky = status.st_mode & S_IFMT == S_IFDIR && status.st_mode & S_ISVTX != 0
        guard isSticky, !isLast else { throw writable(path, place) }
        return true
    }

    private static func checkOwner(
        _ status: stat, _ owner: Owner, of place: String, _ path: String
    ) throws(CommonError) {
        guard !owner.includes(status.st_uid) else { return }
        switch owner {
        case .userOrRoot:
            throw refusal(
                path, "\(place) belongs to another user", recovery: recovery(place, path))
        case .root:
            throw refusal(
                path, "\(place) does not belong to root",
                recovery: "Ask the administrator of this machine to check it.")
        }
    }

    /// The next step for another user's place. A directory can be that user's home.
    private static func recovery(_ place: String, _ path: String) -> String {
        if geteuid() == 0 { return "Run the program as that user, without sudo." }
        return place == path
            ? "Remove it, or take ownership of it (chown) if you trust its contents."
            : "Use another directory, or let an administrator correct its owner."
    }

    private static func writable(_ path: String, _ place: String) -> CommonError {
        refusal(
            path, "other users can write \(place)",
            recovery: "Check the file's contents, then run: chmod go-w '\(place)'")
    }

    private static func unreadable(_ path: String, _ owner: Owner, _ error: SystemError)
        -> CommonError
    {
        let recovery =
            switch owner {
            case .userOrRoot: "Give your user the right to read it: chmod u+r '\(path)'"
            case .root: "Ask the administrator of this machine to make it readable for all users."
            }
        return refusal(
            path, "\(error)",
            recovery: error.number == EACCES
                ? recovery : "Check the file system, then try again.")
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
