internal import Glibc

/// Files with secrets, which no other user but root may access.
package enum SecretFile {
    /// The reason why a file cannot be used, as the end of a sentence.
    package struct Refusal: Error {
        package let reason: String
    }

    /// The reason why an open file cannot be used for a secret: its kind, or that another user can access it; nil if there is none.
    ///
    /// A regular file or FIFO must belong to this user or root, and its group and others must have no permissions. The exception is
    /// a credential of systemd: it belongs to root and the group root, and an ACL allows the service's user to read it, which
    /// `stat` shows as mode 440.
    package static func objection(to descriptor: Int32) -> String? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return String(cString: strerror(errno)) }
        switch status.st_mode & S_IFMT {
        case S_IFREG, S_IFIFO: break
        case S_IFDIR: return "it is a directory"
        default: return "it is neither a regular file nor a FIFO"
        }
        if status.st_uid != geteuid() && status.st_uid != 0 { return "it belongs to another user" }
        let isCredential = status.st_uid == 0 && status.st_gid == 0 && status.st_mode & 0o777 == 0o440
        if status.st_mode & 0o077 != 0 && !isCredential { return "its group or others have rights to it" }
        return nil
    }

    /// Reads a regular file into locked memory.
    ///
    /// - Parameter maximumCount: The maximum length in bytes.
    package static func read(_ path: String, maximumCount: Int) throws(Refusal) -> SecretBytes {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0 else { throw Refusal(reason: String(cString: strerror(errno))) }
        defer { close(descriptor) }
        if let reason = objection(to: descriptor) { throw Refusal(reason: reason) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
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
