internal import FoundationEssentials
internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The records of all users, one file for each in a directory that only the service can access.
///
/// One program uses it, one call at a time. Each write is atomic and on the disk when the call
/// returns; a crash leaves the old record or the new one.
package struct LoginRecordStore: Sendable {
    private static let maximumLength = 65_536

    private let directory: String

    /// - Parameter directory: An absolute path, of a directory with mode 0700 of this process's
    ///   user.
    package init(directory: String) { self.directory = directory }

    /// Reads a record.
    ///
    /// - Returns: nil if the user has none.
    /// - Throws: `CommonError`: `damaged` for bytes that are no record of the user, `unavailable`
    ///   for a file or directory that other users can access.
    package func read(user: UInt32) throws(CommonError) -> LoginRecord? {
        try checkDirectory()
        guard let bytes = try contents(of: path(of: user)) else { return nil }
        return try LoginRecord(decoding: bytes, user: user)
    }

    /// Stores a record with the next generation, and reads it back.
    ///
    /// - Parameter record: As ``read(user:)`` or an earlier write returned it, with changes; of
    ///   generation 0 if the user has no record.
    /// - Returns: The stored record.
    /// - Throws: `CommonError`: `conflict` if the user's record has another generation by now, or
    ///   exists; `wrongState` for a record without a copy, because it would replace the last one;
    ///   `damaged` if the disk returns other bytes; `unavailable` if it cannot be written.
    package func write(_ record: LoginRecord) throws(CommonError) -> LoginRecord {
        try check(record.generation, of: record.user)
        guard record.hasCopy else {
            throw CommonError(
                code: .wrongState, reason: "the record has no copy of the secret",
                recovery: "Keep the stored record.")
        }
        let next = record.next()
        try replace(path(of: record.user), by: try next.encoded())
        guard try read(user: record.user) == next else {
            throw .damaged("the disk returned another record than the stored one")
        }
        return next
    }

    /// Deletes a record.
    ///
    /// - Parameter generation: Of the record that the caller has seen.
    /// - Throws: `CommonError`: `notFound`, `conflict` if the record has another generation.
    package func remove(user: UInt32, generation: UInt64) throws(CommonError) {
        try check(generation, of: user)
        guard generation > 0 else {
            throw .notFound("the user has no record", recovery: "There is nothing to remove.")
        }
        try delete(user)
    }

    /// Deletes a file that is no record of the user, which therefore has no generation.
    ///
    /// - Throws: `CommonError`: `conflict` without a file, or for a record that can be read.
    package func removeDamaged(user: UInt32) throws(CommonError) {
        do throws(CommonError) { _ = try read(user: user) } catch {
            guard error.code == .damaged else { throw error }
            return try delete(user)
        }
        throw .conflict("the user has no damaged record")
    }

    private func delete(_ user: UInt32) throws(CommonError) {
        guard unlink(path(of: user)) == 0 else {
            throw unusable(path(of: user), SystemError.last.description)
        }
        try syncDirectory()
    }

    private func check(_ generation: UInt64, of user: UInt32) throws(CommonError) {
        guard try read(user: user)?.generation ?? 0 == generation else {
            throw .conflict("another program has changed the user's record")
        }
    }

    private func path(of user: UInt32) -> String { "\(directory)/\(user)" }

    private func checkDirectory() throws(CommonError) {
        var status = stat()
        guard lstat(directory, &status) == 0 else {
            throw unusable(directory, SystemError.last.description)
        }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
            status.st_mode & 0o077 == 0
        else { throw unusable(directory, "it is no directory of this user alone") }
    }

    private func contents(of path: String) throws(CommonError) -> Data? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else {
            guard errno == ENOENT else { throw unusable(path, SystemError.last.description) }
            return nil
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            status.st_nlink == 1, status.st_uid == geteuid(), status.st_mode & 0o077 == 0
        else { throw unusable(path, "it is not a regular file with one name of this user alone") }
        guard status.st_size <= Self.maximumLength else { throw unusable(path, "it is too long") }
        var bytes = [UInt8](repeating: 0, count: Self.maximumLength + 1)
        var length = 0
        while length < bytes.count {
            let count = bytes.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress.map { $0 + length }, $0.count - length)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw unusable(path, SystemError.last.description) }
            guard count > 0 else { break }
            length += count
        }
        return Data(bytes.prefix(length))
    }

    private func replace(_ path: String, by bytes: Data) throws(CommonError) {
        guard bytes.count <= Self.maximumLength else { throw unusable(path, "it is too long") }
        let temporary = "\(path).new"
        unlink(temporary)
        let descriptor = open(
            temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw unusable(path, SystemError.last.description) }
        let isWritten = bytes.withUnsafeBytes { all in
            var rest = all[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = Glibc.write(descriptor, part.baseAddress, part.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return fsync(descriptor) == 0
        }
        let error = SystemError.last
        guard close(descriptor) == 0, isWritten, rename(temporary, path) == 0 else {
            unlink(temporary)
            throw unusable(path, isWritten ? SystemError.last.description : error.description)
        }
        try syncDirectory()
    }

    private func syncDirectory() throws(CommonError) {
        let descriptor = open(directory, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard descriptor >= 0 else { throw unusable(directory, SystemError.last.description) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else {
            throw unusable(directory, SystemError.last.description)
        }
    }

    private func unusable(_ path: String, _ reason: String) -> CommonError {
        CommonError(
            code: .unavailable, reason: "\(path) cannot be used: \(reason)",
            recovery:
                "Give the service a private state directory with mode 0700, and free disk space.")
    }
}
