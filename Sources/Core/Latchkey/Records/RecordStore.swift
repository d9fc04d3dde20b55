internal import Dispatch
public import FoundationEssentials
internal import GRDB
internal import Glibc
internal import Synchronization

/// One SQLite file for all facades: containers, their records and record keys, and the keystores'
/// trust anchors.
///
/// The file is `<directory>/<profile>/latchkey.sqlite`. Directories have mode 0700 and files 0600,
/// and both belong to the caller; the store refuses others. The log is write-ahead with full
/// synchronisation: a stored change survives a power cut. Several processes can use one store at
/// once; a writer waits up to 5 seconds for another. A store that cannot be written, because of its
/// mode, a read-only file system or a full disk, can still be read. Such an object stays read-only:
/// open the store again when it can be written. If its directory cannot be written, and another
/// process changes the store nevertheless, each further access is `unavailable`. If another program
/// replaces or deletes the file, as when it restores a backup, each further access of this object is
/// `conflict`: open the store again.
public final class RecordStore: Sendable {
    /// The path of the SQLite file.
    public let path: String
    /// The store's profile.
    let profile: String
    private let database: DatabaseQueue
    /// The error of each write if the store could only be opened for reading.
    private let obstacle: CommonError?
    /// Whether there is no store: see ``init(existing:profile:now:)``.
    package let isMissing: Bool
    /// The file, if SQLite does not notice its replacement or its changes.
    let file: OpenedFile?
    let now: @Sendable () -> Date
    /// The store's reset count at this object's last access; see ``startOver()``.
    let resetCount: Atomic<Int>

    /// Opens the store. Creates a missing one.
    ///
    /// - Parameters:
    ///   - directory: An absolute or relative path; see ``defaultDirectory(environment:)``.
    ///   - profile: 1 to 64 characters of `A–Z a–z 0–9 . _ -`, not starting with a dot.
    ///   - now: The clock for the rows' timestamps.
    /// - Throws: ``CommonError``: `unavailable` for an unusable path or a wrong owner or mode,
    ///   `damaged` for a file that is not a store, or a store of another format.
    public convenience init(
        directory: String, profile: String = "default",
        now: @escaping @Sendable () -> Date = { Date() }
    ) async throws(CommonError) {
        try await self.init(directory, profile, now) { () throws(CommonError) in
            try StoreFiles(directory: directory, profile: profile)
        }
    }

    /// Opens the store for a program that adds nothing to it. Creates nothing: a missing store is
    /// empty, and cannot be written.
    ///
    /// - Throws: ``CommonError``, as the other initializer.
    package convenience init(
        existing directory: String, profile: String = "default",
        now: @escaping @Sendable () -> Date = { Date() }
    ) async throws(CommonError) {
        try await self.init(directory, profile, now) { () throws(CommonError) in
            try StoreFiles(existing: directory, profile: profile)
        }
    }

    /// - Parameter files: Returns the files of the store; nil if there is none.
    private init(
        _ directory: String, _ profile: String, _ now: @escaping @Sendable () -> Date,
        files: () throws(CommonError) -> StoreFiles?
    ) async throws(CommonError) {
        do throws(CommonError) {
            path = try StoreFiles.places(directory, profile)[2]
            self.profile = profile
            self.now = now
            let files = try files()
            isMissing = files == nil
            let (opened, resetCount) = try await Self.onDatabaseThread("open the store") {
                let opened =
                    if let files {
                        try Schema.openDatabase(at: files.database)
                    } else {
                        try Schema.emptyDatabase(for: directory)
                    }
                return (opened, try opened.0.read { try Self.resetCount(in: $0) })
            }
            database = opened.0
            obstacle = opened.obstacle
            file = opened.file
            self.resetCount = Atomic(resetCount)
        } catch {
            throw error.during("open the store")
        }
    }

    /// `$XDG_DATA_HOME/latchkey`, or `~/.local/share/latchkey` if that is not set.
    public static func defaultDirectory(environment: [String: String]) throws(CommonError)
        -> String
    {
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") {
            return data + "/latchkey"
        }
        guard let home = environment["HOME"], home.hasPrefix("/") else {
            throw CommonError(
                operation: "find the store", code: .unavailable,
                reason: "neither XDG_DATA_HOME nor HOME is set",
                recovery: "Set one of them, or name the store's directory.")
        }
        return home + "/.local/share/latchkey"
    }

    /// The version of SQLite; nil if it does not work.
    package static var libraryVersion: String? {
        try? DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") }
    }

    /// The names of the containers with stored records or keys.
    package func containerNames() async throws(CommonError) -> [String] {
        try await read("list the containers") { database in
            try String.fetchAll(
                database,
                sql: "SELECT container FROM record UNION SELECT container FROM classKey ORDER BY 1")
        }
    }

    /// The records of one container.
    package struct Contents: Sendable {
        package let name: String
        /// The number of records of each kind, and of pending revocations under `revocation`.
        package let kinds: [String: Int]
    }

    /// The records of all containers, not verified.
    package func contents() async throws(CommonError) -> [Contents] {
        try await read("list the records") { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT container, kind, count(*) AS count FROM record GROUP BY container, kind
                    UNION ALL SELECT container, 'revocation', count(*) FROM revocation WHERE isDue GROUP BY container
                    """)
            let counts = try rows.map { row in
                let name = try row.decode(String.self, forColumn: "container")
                return (
                    name, try row.decode(String.self, forColumn: "kind"),
                    try row.decode(Int.self, forColumn: "count")
                )
            }
            return Dictionary(grouping: counts, by: \.0).map { name, kinds in
                Contents(
                    name: name, kinds: Dictionary(kinds.map { ($0.1, $0.2) }, uniquingKeysWith: +))
            }
            .sorted { $0.name < $1.name }
        }
    }

    func read<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database) throws -> T)
        async throws(CommonError) -> T
    {
        do {
            return try await database.read { try body(self.checked($0)) }
        } catch {
            throw CommonError(storing: error).during(operation)
        }
    }

    func write<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database) throws -> T)
        async throws(CommonError) -> T
    {
        do {
            if let obstacle { throw obstacle }
            return try await database.write { try body(self.checked($0)) }
        } catch {
            throw CommonError(storing: error).during(operation)
        }
    }

    /// Reads on the caller's own thread. Takes microseconds, or as long as a write of this process.
    func readNow<T>(_ operation: String, _ body: (Database) throws -> T) throws(CommonError) -> T {
        do {
            return try database.read { try body(checked($0)) }
        } catch {
            throw CommonError(storing: error).during(operation)
        }
    }

    /// Writes on the caller's own thread. Takes as long as the disk, and up to 5 seconds if another
    /// process writes.
    func writeNow<T>(_ operation: String, _ body: (Database) throws -> T) throws(CommonError) -> T {
        do {
            if let obstacle { throw obstacle }
            return try database.write { try body(checked($0)) }
        } catch {
            throw CommonError(storing: error).during(operation)
        }
    }

    /// The space that a change needs at most, in bytes.
    private static let changeBytes: UInt64 = 64 << 10

    /// Whether the store could only be opened for reading.
    package var isReadOnly: Bool { obstacle != nil }

    /// Checks that the store can be written. Call it before a prompt, or a use of the hardware or
    /// the network, whose result is stored.
    ///
    /// - Throws: ``CommonError`` with code `unavailable`: the store is read-only, or the disk is
    ///   full.
    package func checkWritable() throws(CommonError) {
        if let obstacle { throw obstacle }
        var disk = statvfs()
        // Some file systems do not report their size; the write decides.
        guard statvfs(path, &disk) == 0, disk.f_blocks > 0 else { return }
        let blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail
        guard UInt64(blocks) * UInt64(disk.f_frsize) < Self.changeBytes else { return }
        throw CommonError(storing: DatabaseError(resultCode: .SQLITE_FULL))
    }

    /// Runs `body` on its own thread, because opening a database blocks. GRDB does the same for all
    /// later accesses.
    private static func onDatabaseThread<T: Sendable>(
        _ operation: String, _ body: @escaping @Sendable () throws -> T
    ) async throws(CommonError) -> T {
        let result: Result<T, any Error> = await withCheckedContinuation { continuation in
            databaseThreads.async { continuation.resume(returning: Result(catching: body)) }
        }
        do {
            return try result.get()
        } catch {
            throw CommonError(storing: error).during(operation)
        }
    }
}

extension RecordStore: TrustAnchors {
    public func anchor(_ name: String) async throws(CommonError) -> Data? {
        try await read("read a trust anchor") { database in
            let statement = try database.cachedStatement(
                sql: "SELECT value FROM anchor WHERE name = ?")
            return try Data.fetchOne(statement, arguments: [name])
        }
    }

    public func anchor(_ name: String, is candidate: Data) async throws(CommonError) -> Data {
        try await write("store a trust anchor") { database in
            try database.execute(
                sql: "INSERT OR IGNORE INTO anchor (name, value) VALUES (?, ?)",
                arguments: [name, candidate])
            return try Data.fetchOne(
                database, sql: "SELECT value FROM anchor WHERE name = ?", arguments: [name])
                ?? candidate
        }
    }

    public func replaceAnchor(_ name: String, with value: Data?) async throws(CommonError) {
        try await write("replace a stored value") { database in
            guard let value else {
                return try database.execute(
                    sql: "DELETE FROM anchor WHERE name = ?", arguments: [name])
            }
            try database.execute(
                sql: "INSERT OR REPLACE INTO anchor (name, value) VALUES (?, ?)",
                arguments: [name, value])
        }
    }

    public func anchorNames(with prefix: String) async throws(CommonError) -> [String] {
        try await read("list stored values") { database in
            try String.fetchAll(
                database,
                sql: "SELECT name FROM anchor WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name",
                arguments: [prefix])
        }
    }

    /// The blobs of all containers. A row that cannot be decoded is left out: its use fails as
    /// damaged.
    public func storedBlobs(of backend: String) async throws(CommonError) -> [Data] {
        try await read("look for stored keys") { database in
            let keys = try String.fetchAll(
                database, sql: "SELECT hardwareKey FROM record WHERE hardwareKey IS NOT NULL"
            )
            .compactMap { try? JSONDecoder().decode(HardwareKey.self, from: Data($0.utf8)) }
            let secrets = try Data.fetchAll(
                database, sql: "SELECT sealed FROM classKey UNION ALL SELECT sealed FROM revocation"
            ).compactMap { try? JSONDecoder().decode(SealedSecret.self, from: $0) }
            return keys.filter { $0.backend == backend }.map(\.blob)
                + (keys.compactMap(\.authorization) + secrets).filter { $0.backend == backend }.map(
                    \.blob)
        }
    }
}

extension CommonError {
    /// Converts an error of SQLite. A ``CommonError`` stays unchanged.
    init(storing error: any Error) {
        if let error = error as? CommonError {
            self = error
            return
        }
        // The tables are strict: a value of another type comes from another table.
        if error is RowDecodingError {
            self = .damaged(
                "the store's file is damaged: a table contains a value of the wrong type")
            return
        }
        guard let error = error as? DatabaseError else {
            let cancelled = error is CancellationError
            self.init(
                code: cancelled ? .cancelled : .failed,
                reason: cancelled ? "the operation was cancelled" : "\(error)",
                recovery: "Try again.")
            return
        }
        let (code, reason, recovery) = Self.meaning(of: error.extendedResultCode)
        self.init(
            code: code, reason: reason, recovery: recovery,
            underlying: UnderlyingError(
                layer: "sqlite", rawCode: UInt32(bitPattern: error.extendedResultCode.rawValue),
                text: error.message ?? "no message"))
    }

    private static func meaning(of code: ResultCode) -> (Code, String, Recovery) {
        // SQLite could not extend the file of memory that its processes share, usually because the
        // disk is full.
        if code == .SQLITE_IOERR_SHMSIZE { return meaning(of: .SQLITE_FULL) }
        return switch code.primaryResultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            (.transient, "another process is writing to the store", "Try again.")
        case .SQLITE_FULL:
            (
                .unavailable, "the disk is full; nothing was changed",
                "Free some space and try again."
            )
        case .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_CANTOPEN, .SQLITE_AUTH:
            (
                .unavailable, "the store cannot be written",
                "Check that its file system is writable, and the owner and mode of its directory."
            )
        case .SQLITE_IOERR:
            (.unavailable, "the disk reports an error", "Check the disk, then try again.")
        case .SQLITE_CORRUPT, .SQLITE_NOTADB:
            (
                .damaged, "the store's file is damaged; it was not changed",
                Recovery("Restore the store from a backup, or archive it.", .resetStore)
            )
        case .SQLITE_CONSTRAINT:
            (.conflict, "the record exists already", "Read the stored record, then try again.")
        default:
            (
                .failed, "the database returned an error",
                "Try again; if it happens again, report it with the code."
            )
        }
    }
}
