internal import FoundationEssentials
internal import Glibc
package import Latchkey
internal import LatchkeyPlatform

/// The records of all users, one file for each in a directory that only the service can access.
///
/// One program uses it, one call at a time. Each write is atomic and on the disk when the call
/// returns; a crash leaves the old record or the new one.
package struct SignInRecordStore: Sendable {
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
    package func read(user: UInt32) throws(CommonError) -> SignInRecord? {
        try checkDirectory()
        let file = try PrivateFile.read(path(of: user), limit: Self.maximumLength)
        guard let file else { return nil }
        return try SignInRecord(decoding: file.withUnsafeBytes { Data($0) }, user: user)
    }

    /// Stores a record with the next generation, and reads it back.
    ///
    /// - Parameter record: As ``read(user:)`` or an earlier write returned it, with changes; of
    ///   generation 0 if the user has no record.
    /// - Returns: The stored record.
    /// - Throws: `CommonError`: `conflict` if the user's record has another generation by now, or
    ///   exists; `wrongState` for a record without a copy, because it would replace the last one;
    ///   `damaged` if the disk returns other bytes; `unavailable` if it cannot be written.
    package func write(_ record: SignInRecord) throws(CommonError) -> SignInRecord {
        try check(record.generation, of: record.user)
        guard record.hasCopy else {
            throw CommonError(
                code: .wrongState, reason: "the record has no copy of the secret",
                recovery: "Keep the stored record.")
        }
        let next = record.next()
        try PrivateFile.replace(
            path(of: record.user), by: SecretBytes(try next.encoded()), limit: Self.maximumLength)
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
        try PrivateFile.remove(path(of: user))
    }

    /// Deletes a file that is no record of the user, which therefore has no generation.
    ///
    /// - Throws: `CommonError`: `conflict` without a file, or for a record that can be read.
    package func removeDamaged(user: UInt32) throws(CommonError) {
        do throws(CommonError) { _ = try read(user: user) } catch {
            guard error.code == .damaged else { throw error }
            return try PrivateFile.remove(path(of: user))
        }
        throw .conflict("the user has no damaged record")
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
            throw PrivateFile.unusable(directory, SystemError.last.description)
        }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(),
            status.st_mode & 0o077 == 0
        else { throw PrivateFile.unusable(directory, "it is no directory of this user alone") }
    }
}
