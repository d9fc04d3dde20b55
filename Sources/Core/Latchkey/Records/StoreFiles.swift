internal import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// The store's directories and file, created and checked before SQLite opens them.
struct StoreFiles {
    let database: String

    /// - Parameter isArchiving: Whether the files are only moved aside. An interrupted move leaves
    ///   second names of the logs.
    init(directory: String, profile: String, isArchiving: Bool = false) throws(CommonError) {
        let places = try Self.places(directory, profile)
        for directory in places.dropLast() {
            try Self.makeDirectories(directory)
            try Self.check(directory, .directory)
        }
        database = places[2]
        try Self.makeFile(database)
        let kind = isArchiving ? Kind.linkedFile : .file
        try Self.check(database, kind)
        // SQLite gives its side files the owner and mode of the database, and reads existing ones.
        for suffix in ["-wal", "-shm", "-journal"] {
            try Self.check(database + suffix, kind, mayBeMissing: true)
        }
    }

    /// The existing files; nil if a part of the path is missing. Creates nothing.
    init?(existing directory: String, profile: String) throws(CommonError) {
        let places = try Self.places(directory, profile)
        for place in places {
            var status = stat()
            guard lstat(place, &status) == 0 else {
                guard errno == ENOENT else { throw Self.unusable(place, errno) }
                return nil
            }
            if place != places.last { try Self.check(place, .directory) }
        }
        try self.init(directory: directory, profile: profile)
    }

    /// The paths of the directory, of the profile's directory in it, and of the database.
    static func places(_ directory: String, _ profile: String) throws(CommonError) -> [String] {
        guard
            (1...64).contains(profile.utf8.count), !profile.hasPrefix("."),
            profile.utf8.allSatisfy({ $0.isASCIILetterOrDigit || "._-".utf8.contains($0) })
        else { throw .invalidInput("‘\(profile)’ is not a valid profile name") }
        guard !directory.isEmpty else { throw .invalidInput("the directory's name is empty") }
        let directory = withoutEmptyParts(directory)
        let folder = directory + "/" + profile
        return [directory, folder, folder + "/latchkey.sqlite"]
    }

    /// The path without trailing `/` and `/.`: with them it names the target of a symbolic link
    /// (path_resolution(7)), and the check must see the link itself.
    private static func withoutEmptyParts(_ path: String) -> String {
        var path = path[...]
        while path.utf8.count > 1, path.hasSuffix("/") || path.hasSuffix("/.") { path.removeLast() }
        return String(path)
    }

    // MARK: Archives

    /// Creates the empty file of an archive under a new name, next to the store.
    static func makeArchive(of database: String, at date: Date) throws(CommonError) -> String {
        let stem = database.dropLast(".sqlite".count)
        let style = Date.ISO8601FormatStyle(dateSeparator: .omitted, timeSeparator: .omitted)
        for number in 1...100 {
            let archive =
                "\(stem)-\(date.formatted(style))\(number == 1 ? "" : "-\(number)").sqlite"
            if mknod(archive, S_IFREG | 0o600, 0) == 0 { return archive }
            guard errno == EEXIST else { throw unusable(archive, errno) }
        }
        throw CommonError(
            code: .unavailable, reason: "there are too many archives of \(database)",
            recovery: "Move the old archives to another directory.")
    }

    /// Renames the database and its side files. Accesses of a program that has the store open then
    /// throw `conflict` until it opens the store again.
    ///
    /// - Returns: The database's new path.
    func moveAside(at date: Date) throws(CommonError) -> String {
        let archive = try Self.makeArchive(of: database, at: date)
        let logs = ["-wal", "-journal"]
        // The database and its logs always have the same name. Without its logs, it could lose the
        // last changes.
        for suffix in logs where link(database + suffix, archive + suffix) != 0 && errno != ENOENT {
            throw Self.unusable(database + suffix, errno)
        }
        guard rename(database, archive) == 0 else { throw Self.unusable(database, errno) }
        for suffix in logs + ["-shm"] { unlink(database + suffix) }
        return archive
    }

    /// Waits until the file and its directory entry are on the disk.
    static func synchronize(_ path: String) throws(CommonError) {
        let folder = String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
        for place in [path, folder] {
            let descriptor = open(place, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw unusable(place, errno) }
            defer { close(descriptor) }
            guard fsync(descriptor) == 0 else { throw unusable(place, errno) }
        }
    }

    private static func makeDirectories(_ path: String) throws(CommonError) {
        var parents = path.split(separator: "/", omittingEmptySubsequences: true).map(String.init)
        var made = path.hasPrefix("/") ? "" : "."
        while !parents.isEmpty {
            made += "/" + parents.removeFirst()
            guard mkdir(made, 0o700) != 0, errno != EEXIST else { continue }
            let cause = errno
            // A parent on a read-only file system answers EROFS even where it exists.
            var status = stat()
            guard stat(made, &status) == 0 else {
                let isFull = [EROFS, ENOSPC, EDQUOT].contains(cause)
                throw unfit(
                    "the directory \(made) cannot be created: \(SystemError(cause))",
                    isFull
                        ? advice(after: cause)
                        : "Create it, owned by your user, or choose another directory.")
            }
        }
    }

    /// Creates the file without opening it: closing a file releases all locks that its process has
    /// on it (fcntl(2)), and a SQLite connection that is already open needs those locks.
    private static func makeFile(_ path: String) throws(CommonError) {
        guard mknod(path, S_IFREG | 0o600, 0) != 0, errno != EEXIST else { return }
        guard errno == EROFS, access(path, R_OK) == 0 else { throw unusable(path, errno) }
    }

    private enum Kind {
        case directory
        /// A regular file with one name: with another one, a program could have prepared that
        /// SQLite writes to a file outside of the store.
        case file
        /// A regular file with any number of names.
        case linkedFile
    }

    /// Checks that there is a directory or regular file of this user, to which no other user has
    /// access.
    private static func check(
        _ path: String, _ kind: Kind, mayBeMissing: Bool = false
    ) throws(CommonError) {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            guard mayBeMissing, errno == ENOENT else { throw unusable(path, errno) }
            return
        }
        let isOfKind =
            switch kind {
            case .directory: status.st_mode & S_IFMT == S_IFDIR
            case .file: status.st_mode & S_IFMT == S_IFREG && status.st_nlink == 1
            case .linkedFile: status.st_mode & S_IFMT == S_IFREG
            }
        let (isOwn, isPrivate) = (status.st_uid == geteuid(), status.st_mode & 0o077 == 0)
        guard isOfKind, isOwn, isPrivate else {
            throw explanation(of: path, status, kind, isOwn: isOwn)
        }
    }

    private static func explanation(
        of path: String, _ status: stat, _ kind: Kind, isOwn: Bool
    ) -> CommonError {
        let isDirectory = kind == .directory
        guard status.st_mode & S_IFMT == (isDirectory ? S_IFDIR : S_IFREG) else {
            return unfit(
                "\(path) is not a \(isDirectory ? "directory" : "regular file")",
                "Choose another directory.")
        }
        guard isOwn else {
            return unfit(
                "\(path) belongs to another user", "Choose a directory that belongs to you.")
        }
        guard isDirectory || status.st_mode & 0o077 != 0 else {
            return CommonError(
                code: .damaged, reason: "\(path) has more than one name (hard link)",
                recovery:
                    "Delete the other name if you made it. Otherwise archive the store.")
        }
        let mode = isDirectory ? "700" : "600"
        return unfit(
            "\(path) is accessible to other users",
            "If that is a mistake, run: chmod \(mode) '\(path)'")
    }

    private static func unfit(_ reason: String, _ recovery: String) -> CommonError {
        CommonError(code: .unavailable, reason: reason, recovery: Recovery(recovery))
    }

    private static func unusable(_ path: String, _ cause: Int32) -> CommonError {
        CommonError(
            code: .unavailable,
            reason: "\(path) cannot be used: \(SystemError(cause))",
            recovery: Recovery(advice(after: cause)))
    }

    private static func advice(after cause: Int32) -> String {
        switch cause {
        case EROFS: "Its file system is read-only: make it writable, or choose another directory."
        case ENOSPC, EDQUOT: "Free some space and try again."
        default: "Make it writable for your user, or choose another directory."
        }
    }
}
