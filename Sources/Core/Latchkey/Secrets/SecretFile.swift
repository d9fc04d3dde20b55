internal import FoundationEssentials
internal import Glibc
internal import LatchkeyPlatform

/// Files with secrets, which no other user except root may access.
package enum SecretFile {
    /// The reason why a file cannot be used, as the end of a sentence.
    package struct Refusal: Error {
        package let reason: String
    }

    /// The reason why an open file cannot be used for a secret: its kind, or that another user can
    /// access or replace it; nil if there is none.
    ///
    /// - Parameter path: The path with which the file was opened.
    package static func objection(to descriptor: Int32, openedAs path: String) -> String? {
        do {
            _ = try status(of: descriptor, openedAs: path)
            return nil
        } catch {
            return error.reason
        }
    }

    /// The state of an open file that can be used for a secret.
    ///
    /// A regular file or FIFO must belong to this user or root, and its group and others must have
    /// no permissions. The exception is a credential of systemd, a file in the directory that
    /// `CREDENTIALS_DIRECTORY` names: it belongs to root and the group root, and an ACL allows the
    /// service's user to read it, which `stat` shows as mode 440. No other user may be able to replace
    /// a regular file (``TrustedFile``), unless the path names a descriptor.
    ///
    /// - Parameters:
    ///   - path: The path with which the file was opened.
    ///   - credentials: The directory of systemd's credentials; nil if there is none.
    static func status(
        of descriptor: Int32, openedAs path: String,
        credentials: String? = ProcessInfo.processInfo.environment["CREDENTIALS_DIRECTORY"]
    ) throws(Refusal) -> stat {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw Refusal(reason: SystemError.last.description)
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG, S_IFIFO: break
        case S_IFDIR: throw Refusal(reason: "it is a directory")
        default: throw Refusal(reason: "it is neither a regular file nor a FIFO")
        }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw Refusal(reason: "it belongs to another user")
        }
        let isOfRoot = status.st_uid == 0 && status.st_gid == 0 && status.st_mode & 0o777 == 0o440
        guard status.st_mode & 0o077 == 0 || isOfRoot && isCredential(path, in: credentials) else {
            throw Refusal(reason: "its group or others have rights to it")
        }
        guard status.st_mode & S_IFMT == S_IFREG, !isDescriptor(path) else { return status }
        // In a shared directory, a second name can be another user's, for another file of this user.
        guard status.st_nlink <= 1 else {
            throw Refusal(reason: "it has a second name (a hard link)")
        }
        do {
            // mktemp(1) makes files in /tmp.
            try TrustedFile.check(path, mayBeInSharedDirectory: true)
        } catch {
            throw Refusal(reason: error.reason)
        }
        return status
    }

    /// Whether a path names a descriptor of this process, which no other user can replace. Its file
    /// can be deleted already, as that of a shell's here-document.
    private static func isDescriptor(_ path: String) -> Bool {
        ["/dev/fd/", "/proc/self/fd/"].contains {
            path.hasPrefix($0) && Int32(path.dropFirst($0.count)) != nil
        }
    }

    private static func isCredential(_ path: String, in directory: String?) -> Bool {
        guard let directory, directory.hasPrefix("/"), path.hasPrefix(directory + "/") else {
            return false
        }
        return !path.split(separator: "/").contains("..")
    }

    /// Reads a regular file into locked memory.
    ///
    /// - Parameter maximumCount: The maximum length in bytes.
    package static func read(_ path: String, maximumCount: Int) throws(Refusal) -> SecretBytes {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw Refusal(reason: SystemError.last.description) }
        defer { close(descriptor) }
        let status = try Self.status(of: descriptor, openedAs: path)
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Refusal(reason: "it is not a regular file")
        }
        guard status.st_size <= maximumCount else {
            throw Refusal(reason: "it has more than \(maximumCount) bytes")
        }
        return try SecretBytes(count: Int(status.st_size)) { (buffer) throws(Refusal) in
            var rest = buffer[...]
            while !rest.isEmpty {
                let target = UnsafeMutableRawBufferPointer(rebasing: rest)
                let count = Glibc.read(descriptor, target.baseAddress, target.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw Refusal(reason: "it cannot be read completely") }
                rest = rest.dropFirst(count)
            }
        }
    }
}
