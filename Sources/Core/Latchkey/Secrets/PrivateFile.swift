internal import Glibc
internal import LatchkeyPlatform

/// The files of a service: with mode 0600, in a directory that no other user can access.
package enum PrivateFile {
    /// The maximum length in bytes: more than the state of the maximum number of users.
    package static let maximumCount = 1 << 20

    /// Checks that no other user can read, replace or delete the files in a directory.
    package static func checkDirectory(_ path: String) throws(CommonError) {
        do throws(CommonError) { try TrustedFile.check(path) } catch {
            throw unusable(path, error.reason)
        }
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
            status.st_uid == geteuid(), status.st_mode & 0o077 == 0
        else {
            throw unusable(path, "it is no directory of this user alone")
        }
    }

    /// Reads a file.
    ///
    /// - Parameter limit: The maximum length in bytes.
    /// - Returns: nil if it does not exist.
    /// - Throws: ``CommonError`` with code `unavailable` if another user owns it or has
    ///   permissions for it.
    package static func read(
        _ path: String, limit: Int = maximumCount
    ) throws(CommonError) -> SecretBytes? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw unusable(path, SystemError.last.description) }
            return nil
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            status.st_nlink == 1
        else { throw unusable(path, "it is not a regular file with one name") }
        guard status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
            throw unusable(path, "other users own it or have permissions for it")
        }
        guard status.st_size <= limit else { throw unusable(path, "it is too long") }
        return try SecretBytes(count: Int(status.st_size)) { (buffer) throws(CommonError) in
            var rest = buffer[...]
            while !rest.isEmpty {
                let count = Glibc.read(
                    descriptor, UnsafeMutableRawBufferPointer(rebasing: rest).baseAddress,
                    rest.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw unusable(path, "it cannot be read") }
                rest = rest.dropFirst(count)
            }
        }
    }

    /// Replaces a file atomically: a crash leaves the old or the new content. The new content is on
    /// the disk when the call returns.
    package static func replace(
        _ path: String, by bytes: SecretBytes, limit: Int = maximumCount
    ) throws(CommonError) {
        guard bytes.count <= limit else { throw unusable(path, "it would be too long") }
        let temporary = "\(path).new"
        unlink(temporary)
        let descriptor = open(
            temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw unusable(path, SystemError.last.description) }
        let isWritten = bytes.withUnsafeBytes { all in
            var rest = all[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = write(descriptor, part.baseAddress, part.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return fsync(descriptor) == 0
        }
        let error = SystemError.last
        guard close(descriptor) == 0, isWritten, rename(temporary, path) == 0 else {
            let reason = isWritten ? SystemError.last : error
            unlink(temporary)
            throw unusable(path, reason.description)
        }
        try syncDirectory(of: path)
    }

    /// Deletes a file. The change is on the disk when the call returns.
    package static func remove(_ path: String) throws(CommonError) {
        guard unlink(path) == 0 else { throw unusable(path, SystemError.last.description) }
        try syncDirectory(of: path)
    }

    private static func syncDirectory(of path: String) throws(CommonError) {
        let directory = open(
            String(path.prefix(upTo: path.lastIndex(of: "/") ?? path.endIndex)),
            O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        defer { if directory >= 0 { close(directory) } }
        guard directory >= 0, fsync(directory) == 0 else {
            throw unusable(path, "its directory cannot be written: \(SystemError.last)")
        }
    }

    package static func unusable(_ path: String, _ reason: String) -> CommonError {
        CommonError(
            code: .unavailable, reason: "\(path) cannot be used: \(reason)",
            recovery:
                "Give the service a private state directory with mode 0700, and free disk space.")
    }
}
