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
    /// of this user.
    ///
    /// - Parameter mayBeInSharedDirectory: Whether a file's own directory may be of this kind, or a
    ///   directory that is checked: other users can create files in it.
    /// - Throws: ``CommonError`` with code `invalidInput`.
    package static func check(
        _ path: String, owner: Owner = .userOrRoot, mayBeInSharedDirectory: Bool = false
    ) throws(CommonError) {
        // Directories in which other users can create files, but not replace those of this user.
        var shared: Set<String> = []
        let way = try walk(path) { (place, status, isLast) throws(CommonError) in
            try checkOwner(status, owner, of: place, path)
            let kind = status.st_mode & S_IFMT
            guard kind != S_IFLNK, status.st_mode & 0o022 != 0 else { return true }
            guard kind == S_IFDIR, status.st_mode & S_ISVTX != 0, !isLast else {
                throw writable(path, place)
            }
            shared.insert(place)
            return true
        }
        guard !mayBeInSharedDirectory else { return }
        for own in way.suffix(isDirectory(way) ? 1 : 2) where shared.contains(own) {
            throw writable(path, own)
        }
    }

    /// The first directory or symbolic link on the way to a file, or the file, that belongs to another
    /// user than root, with its owner; nil if all of them are root's. The file, and directories on the
    /// way to it, may not exist.
    ///
    /// - Throws: ``CommonError`` with code `invalidInput` if one of them cannot be read.
    package static func placeOfUser(
        onWayTo path: String
    ) throws(CommonError) -> (place: String, owner: UInt32)? {
        var found: (place: String, owner: UInt32)?
        _ = try walk(path, mayBeMissing: true) { place, status, _ in
            if status.st_uid != 0 { found = (place, status.st_uid) }
            return found == nil
        }
        return found
    }

    /// Visits each directory and symbolic link on the way to a file from the root, and the file.
    ///
    /// - Parameters:
    ///   - mayBeMissing: Whether the way may end at a place that does not exist.
    ///   - visit: Gets a place, its status, and whether the path has no further component. Returns
    ///     whether to go on.
    /// - Returns: The directories and the file without links, from the root.
    private static func walk(
        _ path: String, mayBeMissing: Bool = false,
        _ visit: (_ place: String, _ status: stat, _ isLast: Bool) throws(CommonError) -> Bool
    ) throws(CommonError) -> [String] {
        // Reversed: the last element is the next component.
        var pending = components(path).reversed() as [Substring]
        if !path.hasPrefix("/") {
            pending += components(FileManager.default.currentDirectoryPath).reversed()
        }
        var (way, place, links) = ([String](), "/", 0)
        while true {
            var status = stat()
            guard lstat(place, &status) == 0 else {
                let error = SystemError.last
                guard mayBeMissing, [ENOENT, ENOTDIR].contains(error.number) else {
                    throw unreadable(path, place, error)
                }
                return way
            }
            guard try visit(place, status, pending.isEmpty) else { return way }
            if status.st_mode & S_IFMT == S_IFLNK {
                links += 1
                guard links <= maximumLinks else {
                    throw unreadable(path, place, SystemError(ELOOP))
                }
                let target = try target(of: place, for: path)
                pending += components(target).reversed()
                if target.hasPrefix("/") { way.removeLast(way.count - 1) }
            } else {
                way.append(place)
            }
            while pending.last == ".." {
                pending.removeLast()
                if way.count > 1 { way.removeLast() }
            }
            guard let component = pending.popLast() else { return way }
            let parent = way[way.endIndex - 1]
            place = parent == "/" ? "/\(component)" : "\(parent)/\(component)"
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

    private static func isDirectory(_ way: [String]) -> Bool {
        var status = stat()
        guard let last = way.last, lstat(last, &status) == 0 else { return false }
        return status.st_mode & S_IFMT == S_IFDIR
    }

    private static func components(_ path: String) -> [Substring] {
        path.split(separator: "/").filter { $0 != "." }
    }

    private static func target(of place: String, for path: String) throws(CommonError) -> String {
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink(place, &target, target.count)
        guard count > 0, count < target.count else { throw unreadable(path, place, .last) }
        return String(decoding: target.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
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
        if geteuid() == 0 {
            return place == path
                ? "Run the program as that user, without sudo."
                : "Run the program as that user, without sudo, or use a directory of root."
        }
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
