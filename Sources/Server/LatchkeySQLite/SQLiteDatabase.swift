internal import FoundationEssentials
public import GRDB
internal import Glibc
internal import Latchkey
public import LatchkeyRelyingParty

/// A SQLite database of GRDB, for a server of one process.
public struct SQLiteDatabase: SQLDatabase {
    /// The connections.
    package let writer: any DatabaseWriter
    /// The file that this value opened, its log and the log's index, with their paths.
    private let files: [(path: String, file: OpenedFile)]

    /// Uses a database, which should enforce foreign keys, GRDB's default.
    public init(_ writer: any DatabaseWriter) { self.init(writer, files: []) }

    private init(_ writer: any DatabaseWriter, files: [(path: String, file: OpenedFile)]) {
        self.writer = writer
        self.files = files
    }

    /// Creates a database in memory, which ends with this value.
    public init() throws { try self.init(DatabaseQueue(configuration: Self.configuration)) }

    /// Opens a file that only its owner can access. Commits survive a power failure, and deleted
    /// values are overwritten. After another program replaced or deleted the file or its log, also
    /// with their directory, transactions throw ``SQLFailure``: SQLite would use the old file, which
    /// no other program sees.
    ///
    /// - Parameter creating: Whether to create a file that does not exist.
    /// - Throws: ``SQLiteFileError`` if the file does not exist, or its log remains without it; if
    ///   it belongs to another user, is accessible to other users, or is in a directory in which
    ///   they can replace it; an error of GRDB if it is not a database.
    public init(path: String, creating: Bool) throws {
        try Self.ensurePrivateFile(path, creating: creating)
        try Self.ensureTrustedPath(path)
        var configuration = Self.configuration
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        // In WAL mode GRDB sets synchronous to NORMAL: a power failure could lose commits that
        // clients know of.
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        // Creates the log and its index, which exist as long as the file is open.
        try queue.read { try $0.execute(sql: "SELECT 1 FROM sqlite_master") }
        let files = ["", "-wal", "-shm"].map { path + $0 }.filter { access($0, F_OK) == 0 }
        self.init(queue, files: files.map { ($0, OpenedFile(open: $0)) })
    }

    private static var configuration: GRDB.Configuration {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA secure_delete = ON") }
        return configuration
    }

    public var dialect: SQLDialect { .sqlite }
    public var clockOffset: Double { 0 }

    public func read<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R
    {
        try await Self.reportingFailures {
            try await writer.read {
                try checkFiles()
                return try body(SQLiteConnection(database: $0))
            }
        }
    }

    @discardableResult
    public func write<R: Sendable>(_ body: @escaping @Sendable (any SQLConnection) throws -> R)
        async throws -> R
    {
        try await Self.reportingFailures {
            try await writer.write {
                try checkFiles()
                return try body(SQLiteConnection(database: $0))
            }
        }
    }

    private func checkFiles() throws(SQLFailure) {
        for (path, file) in files {
            do {
                try file.check()
            } catch {
                throw SQLFailure(
                    .unavailable,
                    "another program replaced or deleted the file \(path). Put it back, or restart this program"
                )
            }
        }
    }

    private static func reportingFailures<R>(_ body: () async throws -> R) async throws -> R {
        do {
            return try await body()
        } catch let error as DatabaseError {
            throw SQLFailure(error)
        }
    }

    /// Refuses a directory in which other users can replace the file.
    private static func ensureTrustedPath(_ path: String) throws(SQLiteFileError) {
        do {
            try TrustedFile.check(path)
        } catch {
            throw .init(path, "cannot be used: \(error.reason)", "Use a directory of your own")
        }
    }

    private static func ensurePrivateFile(_ path: String, creating: Bool) throws(SQLiteFileError) {
        // SQLite would delete or overwrite the log of a database that was moved without it.
        if access(path, F_OK) != 0, errno == ENOENT,
            let rest = ["-wal", "-shm", "-journal"].first(where: { access(path + $0, F_OK) == 0 })
        {
            throw .init(
                path, "does not exist, but \(path + rest), which belongs to it, does",
                "Put the database back beside it, or, to begin with an empty one, move that file away"
            )
        }
        let flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (creating ? O_CREAT : 0)
        let descriptor = open(path, flags, 0o600)
        guard descriptor >= 0 else {
            switch errno {
            case ELOOP: throw .init(path, "is a symbolic link", "Give the path of the file itself")
            case ENOENT where !creating:
                throw .init(path, "does not exist", "Check the path", isMissing: true)
            case let number:
                let reason = String(cString: strerror(number))
                throw .init(path, "cannot be opened: \(reason)", "Give another path")
            }
        }
        close(descriptor)
        // SQLite's journals contain the same data, and their permissions can differ.
        for path in ["", "-wal", "-shm", "-journal"].map({ path + $0 }) {
            var status = stat()
            guard lstat(path, &status) == 0 else { continue }
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw .init(path, "is not a regular file", "Give another path")
            }
            // With a second name, SQLite would write to a file elsewhere.
            guard status.st_nlink == 1 else {
                throw .init(
                    path, "has more than one name (hard link)",
                    "Delete the other name if you made it, or give another path")
            }
            guard status.st_uid == geteuid() else {
                throw .init(
                    path, "belongs to another user",
                    "Run as that user, or change its owner with chown")
            }
            guard status.st_mode & 0o077 == 0 else {
                throw .init(
                    path, "is accessible to other users and can contain secrets",
                    "Create a new database, or, if no other user has read it, run: chmod 600 \(path)"
                )
            }
        }
    }
}

extension SQLFailure {
    /// The error of SQLite, without its statement. All end the transaction without an effect.
    fileprivate init(_ error: DatabaseError) {
        switch error.resultCode {
        case .SQLITE_BUSY:
            self.init(.timeout, "another process uses the database file for too long")
        case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_NOMEM:
            self.init(.unavailable, Self.message(of: error))
        case .SQLITE_CONSTRAINT:
            // Integrity constraint violation: the class without a subclass.
            self.init(.statement, sqlState: "23000", Self.message(of: error))
        default: self.init(.statement, Self.message(of: error))
        }
    }

    private static func message(of error: DatabaseError) -> String {
        error.message ?? "SQLite reports the error \(error.resultCode.rawValue)"
    }
}

/// A file that cannot be used.
public struct SQLiteFileError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The cause and the next step.
    public let description: String
    /// Whether the file does not exist.
    package let isMissing: Bool

    fileprivate init(
        _ path: String, _ cause: String, _ recovery: String, isMissing: Bool = false
    ) {
        self.isMissing = isMissing
        description = "the database \(path) \(cause). \(recovery)."
    }
}

/// A transaction of SQLite.
private struct SQLiteConnection: SQLConnection {
    let database: Database

    var dialect: SQLDialect { .sqlite }
    var now: Double? { nil }

    func execute(_ statement: SQLText) throws -> Int {
        let (sql, values) = statement.rendered(for: .sqlite)
        try database.cachedStatement(sql: sql).execute(arguments: Self.arguments(values))
        return database.changesCount
    }

    func rows(_ statement: SQLText) throws -> [SQLRow] {
        let (sql, values) = statement.rendered(for: .sqlite)
        let prepared = try database.cachedStatement(sql: sql)
        let columns = prepared.columnNames
        return try Row.fetchAll(prepared, arguments: Self.arguments(values)).map { row in
            SQLRow(columns: columns, values: row.databaseValues.map(Self.value))
        }
    }

    func script(_ statements: String) throws { try database.execute(sql: statements) }

    private static func arguments(_ values: [SQLValue]) -> StatementArguments {
        StatementArguments(
            values.map { value -> DatabaseValue in
                switch value {
                case .text(let value): value?.databaseValue ?? .null
                case .blob(let value): value?.databaseValue ?? .null
                case .real(let value): value?.databaseValue ?? .null
                case .integer(let value): value?.databaseValue ?? .null
                case .bool(let value): value?.databaseValue ?? .null
                }
            })
    }

    private static func value(_ value: DatabaseValue) -> SQLValue? {
        switch value.storage {
        case .null: nil
        case .int64(let number): .integer(Int(number))
        case .double(let number): .real(number)
        case .string(let text): .text(text)
        case .blob(let data): .blob(data)
        }
    }
}
