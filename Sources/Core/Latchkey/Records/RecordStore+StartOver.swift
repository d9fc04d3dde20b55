internal import FoundationEssentials
internal import GRDB
internal import Glibc
internal import Synchronization

/// Resets: archiving and emptying the store, for example on other hardware.
///
/// The file's `user_version` is the reset count. A key that was opened before a reset is not used
/// after it.
extension RecordStore {
    /// Archives the store and empties it, for all programs at once. Incomplete revocations are
    /// lost. If the hardware is present, finish them first
    /// (``RecordContainer/finishRevocations()``).
    ///
    /// The archive is a copy of the file in the same directory, `latchkey-DATE.sqlite`, with mode 0600. No key is
    /// deleted from the hardware. To restore the archive, end all programs that use the store, delete `latchkey.sqlite`
    /// and its `-wal` and `-shm` files, and rename the archive to `latchkey.sqlite`.
    ///
    /// The containers of this store are then empty and locked, and can be used. In another program,
    /// the next access throws `conflict`, and later accesses use the empty store.
    ///
    /// - Returns: The path of the archive.
    /// - Throws: ``CommonError``; `unavailable` if the archive cannot be written. Then nothing
    ///   was changed.
    @discardableResult
    public func startOver() async throws(CommonError) -> String {
        let path = path
        let archive: String
        do throws(CommonError) {
            archive = try StoreFiles.makeArchive(of: path, at: now())
        } catch {
            throw error.during("archive the store")
        }
        do throws(CommonError) {
            let next = try await write("archive the store") { database in
                // This transaction holds the write lock, so no change is missing from the copy.
                try Self.copy(path, to: archive)
                // The containers keep their generations, so that no new record has the generation
                // of an archived one.
                for table in Schema.tables.subtracting(["container"]) {
                    try database.execute(sql: "DELETE FROM \(table)")
                }
                let next = try Self.resetCount(in: database) % Int(Int32.max) + 1
                try database.execute(sql: "PRAGMA user_version = \(next)")
                return next
            }
            resetCount.store(next, ordering: .sequentiallyConsistent)
            return archive
        } catch {
            unlink(archive)
            throw error
        }
    }

    /// Archives a store, even if it cannot be opened because its file is damaged. A damaged file is
    /// renamed, with its `-wal` file; the next program that opens the store creates a new one.
    ///
    /// - Parameters:
    ///   - directory: The store's directory, as for ``init(directory:profile:now:)``.
    ///   - profile: The store's profile.
    /// - Returns: The path of the archive.
    /// - Throws: ``CommonError``; `unavailable` if the archive cannot be written. Then nothing was
    ///   changed.
    @discardableResult
    public static func startOver(directory: String, profile: String = "default")
        async throws(CommonError) -> String
    {
        do throws(CommonError) {
            return try await RecordStore(directory: directory, profile: profile).startOver()
        } catch {
            guard error.code == .damaged else { throw error }
        }
        do throws(CommonError) {
            return try StoreFiles(directory: directory, profile: profile, isArchiving: true)
                .moveAside(at: Date())
        } catch {
            throw error.during("archive the store")
        }
    }

    private static func copy(_ path: String, to archive: String) throws {
        var configuration = Configuration()
        configuration.readonly = true
        try DatabaseQueue(path: path, configuration: configuration).vacuum(into: archive)
        // SQLite does not call fsync(2) for the copy.
        try StoreFiles.synchronize(archive)
    }

    var currentResetCount: Int { resetCount.load(ordering: .sequentiallyConsistent) }

    static func resetCount(in database: Database) throws -> Int {
        try Int.fetchOne(database.cachedStatement(sql: "PRAGMA user_version")) ?? 0
    }

    /// - Throws: ``CommonError`` with code `conflict`, once, if another program has archived and
    ///   emptied the store, and each time if it has replaced the file; `unavailable` if a store that
    ///   is read without locks has changed.
    func checked(_ database: Database) throws -> Database {
        try file?.check()
        let current = try Self.resetCount(in: database)
        guard resetCount.exchange(current, ordering: .sequentiallyConsistent) != current else {
            return database
        }
        throw CommonError.conflict(
            "another program archived the store and emptied it",
            recovery: "Try again. The store is now empty.")
    }
}
