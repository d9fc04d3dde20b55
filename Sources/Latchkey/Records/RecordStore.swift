internal import Dispatch
public import FoundationEssentials
internal import GRDB

/// One SQLite file under all facades: containers, their records and class keys, and what keystores trust.
///
/// The file is `<directory>/<profile>/latchkey.sqlite`. Directories have mode 0700, files 0600, both owned by the
/// caller; anything else is refused. The log is write-ahead with full synchronisation: what a call has stored survives
/// a power cut. Several processes may use one store at once; a writer waits up to 5 seconds for another.
public final class RecordStore: Sendable {
    /// The path of the SQLite file.
    public let path: String
    private let database: DatabaseQueue
    let now: @Sendable () -> Date

    /// Opens the store, and makes it where there is none.
    ///
    /// - Parameters:
    ///   - directory: An absolute or relative path; see ``defaultDirectory(environment:)``.
    ///   - profile: 1 to 64 characters of `A–Z a–z 0–9 . _ -`, not starting with a dot.
    ///   - now: The clock for the rows' timestamps.
    /// - Throws: ``KeystoreError``: `unavailable` for a path that can't be used and for wrong owners and modes, `damaged` for a
    ///   file that is no store, `unsupported` for a store of a newer version.
    public init(
        directory: String, profile: String = "default", now: @escaping @Sendable () -> Date = { Date() }
    ) async throws(KeystoreError) {
        let files = try StoreFiles(directory: directory, profile: profile)
        path = files.database
        self.now = now
        database = try await Self.onDatabaseThread("open the store") { try Schema.openDatabase(at: files.database) }
    }

    /// Whether there is a store in the directory already. Looks only, and makes nothing.
    public static func isPresent(directory: String, profile: String = "default") -> Bool {
        StoreFiles.isPresent(directory: directory, profile: profile)
    }

    /// `$XDG_DATA_HOME/latchkey`, or `~/.local/share/latchkey` where that isn't set.
    public static func defaultDirectory(environment: [String: String]) throws(KeystoreError) -> String {
        if let data = environment["XDG_DATA_HOME"], data.hasPrefix("/") { return data + "/latchkey" }
        guard let home = environment["HOME"], home.hasPrefix("/") else {
            throw KeystoreError(
                operation: "find the store", code: .unavailable, reason: "neither XDG_DATA_HOME nor HOME is set",
                recovery: "Set one of them, or name the store's directory.")
        }
        return home + "/.local/share/latchkey"
    }

    /// The containers that have something stored.
    public func containerNames() async throws(KeystoreError) -> [String] {
        try await read("list the containers") { database in
            try String.fetchAll(
                database, sql: "SELECT container FROM record UNION SELECT container FROM classKey ORDER BY 1")
        }
    }

    func read<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database) throws -> T)
        async throws(KeystoreError) -> T
    {
        do {
            return try await database.read(body)
        } catch {
            throw KeystoreError(storing: operation, error)
        }
    }

    func write<T: Sendable>(_ operation: String, _ body: @escaping @Sendable (Database) throws -> T)
        async throws(KeystoreError) -> T
    {
        do {
            return try await database.write(body)
        } catch {
            throw KeystoreError(storing: operation, error)
        }
    }

    /// Reads on the caller's own thread: some microseconds, or as long as a write of this process takes.
    func readNow<T>(_ operation: String, _ body: (Database) throws -> T) throws(KeystoreError) -> T {
        do {
            return try database.read(body)
        } catch {
            throw KeystoreError(storing: operation, error)
        }
    }

    /// Writes on the caller's own thread: as long as the disk takes, and up to 5 seconds when another process writes.
    func writeNow<T>(_ operation: String, _ body: (Database) throws -> T) throws(KeystoreError) -> T {
        do {
            return try database.write(body)
        } catch {
            throw KeystoreError(storing: operation, error)
        }
    }

    /// Opening blocks on the disk, so it gets a thread of its own, as GRDB gives to everything later.
    private static func onDatabaseThread<T: Sendable>(
        _ operation: String, _ body: @escaping @Sendable () throws -> T
    ) async throws(KeystoreError) -> T {
        let result: Result<T, any Error> = await withCheckedContinuation { continuation in
            databaseThreads.async { continuation.resume(returning: Result(catching: body)) }
        }
        do {
            return try result.get()
        } catch {
            throw KeystoreError(storing: operation, error)
        }
    }
}

extension RecordStore: TrustAnchors {
    public func anchor(_ name: String) async throws(KeystoreError) -> Data? {
        try await read("read a trust anchor") { database in
            try Data.fetchOne(database, sql: "SELECT value FROM anchor WHERE name = ?", arguments: [name])
        }
    }

    public func anchor(_ name: String, is candidate: Data) async throws(KeystoreError) -> Data {
        try await write("store a trust anchor") { database in
            try database.execute(
                sql: "INSERT OR IGNORE INTO anchor (name, value) VALUES (?, ?)", arguments: [name, candidate])
            return try Data.fetchOne(database, sql: "SELECT value FROM anchor WHERE name = ?", arguments: [name])
                ?? candidate
        }
    }

    /// Those of all containers. A row that cannot be read is left out: its use fails as damaged.
    public func storedBlobs(of backend: String) async throws(KeystoreError) -> [Data] {
        try await read("look for stored keys") { database in
            let keys = try String.fetchAll(
                database, sql: "SELECT hardwareKey FROM record WHERE hardwareKey IS NOT NULL"
            )
            .compactMap { try? JSONDecoder().decode(HardwareKey.self, from: Data($0.utf8)) }
            let secrets = try Data.fetchAll(
                database, sql: "SELECT sealed FROM classKey UNION ALL SELECT sealed FROM revocation"
            ).compactMap { try? JSONDecoder().decode(SealedSecret.self, from: $0) }
            return keys.filter { $0.backend == backend }.map(\.blob)
                + (keys.compactMap(\.authorization) + secrets).filter { $0.backend == backend }.map(\.blob)
        }
    }
}
