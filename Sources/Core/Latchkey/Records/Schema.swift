internal import Dispatch
internal import GRDB
internal import Glibc

/// Threads for opening databases.
let databaseThreads = DispatchQueue(label: "latchkey.records.open", attributes: .concurrent)

/// The tables, and the check of a store's definitions.
enum Schema {
    /// Marks the file as a Latchkey store (SQLite's `application_id`): the characters `Ltch`.
    private static let applicationID = 0x4C74_6368

    /// The database, the error of each write if it can only be read, and the file, if SQLite does
    /// not notice its changes or replacement.
    typealias Opened = (DatabaseQueue, obstacle: CommonError?, file: OpenedFile?)

    /// Opens the store's file, and creates the tables in an empty one. Refuses a file that is not a
    /// store, a store of another format, and a store whose definitions were changed, and does not
    /// change them.
    static func openDatabase(at path: String) throws -> Opened {
        do {
            return (try openForWriting(path), nil, OpenedFile(open: path))
        } catch let error as DatabaseError where error.preventsWriting {
            guard let (queue, file) = try openForReading(path) else { throw error }
            return (queue, CommonError(storing: error), file)
        }
    }

    /// An empty database in memory, in place of the missing store of a directory.
    static func emptyDatabase(for directory: String) throws -> Opened {
        let queue = try DatabaseQueue(configuration: configuration)
        try queue.write(createTables)
        let obstacle = CommonError.notFound(
            "there is no store at \(directory)",
            recovery: "Check the name of the directory, or store something first.")
        return (queue, obstacle, nil)
    }

    /// Opens a store in a directory or on a disk that cannot be written.
    ///
    /// SQLite reads a write-ahead log only with a second file, the shared memory. If there is a
    /// log, also an empty one, SQLite only reads the shared memory (`readonly_shm`), and notices
    /// the changes of other programs. A crash leaves both files, and so does the attempt to open
    /// the store on a full disk.
    ///
    /// Without a log, SQLite would have to create both files. If their directory cannot be written,
    /// it reads the database without them and without locks (`immutable`). Others may be able to
    /// write it, for example root, or through another mount, so each access compares the file. If
    /// the directory can be written, the obstacle may be one of this program only, such as too many
    /// open files; the store is then not opened.
    ///
    /// - Returns: nil for a missing or unreadable store.
    private static func openForReading(_ path: String) throws -> (DatabaseQueue, OpenedFile?)? {
        let folder = String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
        let hasLog = OpenedFile.hasLog(path)
        guard hasLog || access(folder, W_OK) != 0 else { return nil }
        let file = hasLog ? nil : OpenedFile(immutable: path)
        // The characters with a meaning in a URI of SQLite.
        let name = path.reduce(into: "") { name, character in
            switch character {
            case "%": name += "%25"
            case "?": name += "%3f"
            case "#": name += "%23"
            default: name.append(character)
            }
        }
        let uri =
            "file:\(name.hasPrefix("/") ? "//" : "")\(name)?"
            + (hasLog ? "readonly_shm=1" : "immutable=1")
        var configuration = configuration
        configuration.readonly = true
        guard let queue = try? DatabaseQueue(path: uri, configuration: configuration),
            try !queue.read(isEmpty)
        else { return nil }
        return (queue, file)
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "latchkey.records"
        configuration.busyMode = .timeout(busyTimeout)
        // Our tables have no foreign keys, and a table of another program must not prevent the
        // deletion of our rows.
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA synchronous = FULL;
                    PRAGMA secure_delete = ON;
                    PRAGMA trusted_schema = OFF;
                    """)
        }
        return configuration
    }

    private static func openForWriting(_ path: String) throws -> DatabaseQueue {
        // SQLite opens a file that it cannot write without an error if there is a log.
        guard access(path, W_OK) == 0 || errno == ENOENT else {
            throw DatabaseError(
                resultCode: .SQLITE_READONLY, message: String(cString: strerror(errno)))
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        // SQLite's own timeout does not apply while two processes change the journal mode at once.
        let deadline = ContinuousClock.now + .seconds(busyTimeout)
        while true {
            do {
                try prepare(queue)
                return queue
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                guard ContinuousClock.now < deadline else { throw error }
                usleep(10_000)
            }
        }
    }

    private static func prepare(_ queue: DatabaseQueue) throws {
        let isNew = try queue.read(isEmpty)
        // This changes the file, so it comes after the check. SQLite cannot do it within a
        // transaction.
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        guard isNew else { return }
        // The transaction takes the write lock first: one process creates the tables, and the
        // others then find them.
        try queue.write { database in
            guard try isEmpty(database) else { return }
            try createTables(database)
        }
    }

    private static func createTables(_ database: Database) throws {
        try database.execute(sql: "PRAGMA application_id = \(applicationID)")
        for statement in statements { try database.execute(sql: statement) }
    }

    /// How many seconds to wait for another process.
    private static let busyTimeout: Double = 5

    /// Checks the kind of file.
    ///
    /// The guarantee: every later write has exactly its stated effect. A program that could write
    /// the file once can delete existing rows; only a definition acts on rows that are written
    /// later. A trigger, a unique index or a constraint on one of our tables could delete the
    /// record of a revocation in the transaction that writes it. So triggers are refused, and the
    /// definitions on our tables must be those that we create. Other tables affect no write, and
    /// are accepted: SQLite's own (`sqlite_stat1`, from `ANALYZE`), and those of programs that
    /// replicate the file.
    ///
    /// Missing parts are not created again.
    ///
    /// - Returns: Whether the file is empty, and not a store yet.
    /// - Throws: ``CommonError`` with code `damaged`.
    private static func isEmpty(_ database: Database) throws -> Bool {
        let application = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let existing = try Definition.fetchAll(database)
        guard application == applicationID else {
            guard application == 0, existing.isEmpty else {
                throw CommonError.damaged("the store's file is a database of another program")
            }
            return true
        }
        guard existing.filter({ $0.type == "trigger" || tables.contains($0.table) }) == definitions
        else {
            throw CommonError(
                code: .damaged,
                reason:
                    "the store's tables are not those of this version: another version created them, or another "
                    + "program changed them; nothing was changed",
                recovery: Recovery(
                    "Use the version of Latchkey that created the store, or restore it from a backup, or archive it.",
                    .resetStore))
        }
        return false
    }

    /// The names of the tables with the store's contents.
    static let tables = Set(definitions.map(\.table))

    private static let definitions = Set(statements.map(Definition.init))

    private static let statements = [
        """
        CREATE TABLE anchor (
            name TEXT NOT NULL PRIMARY KEY,
            value BLOB NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE container (
            name TEXT NOT NULL PRIMARY KEY,
            generation INTEGER NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE classKey (
            container TEXT NOT NULL,
            name TEXT NOT NULL,
            sealed BLOB NOT NULL,
            generation INTEGER NOT NULL,
            PRIMARY KEY (container, name)
        ) STRICT
        """,
        """
        CREATE TABLE record (
            container TEXT NOT NULL,
            id TEXT NOT NULL,
            kind TEXT NOT NULL,
            class TEXT NOT NULL,
            policy TEXT NOT NULL,
            attributes TEXT NOT NULL,
            hardwareKey TEXT,
            payload BLOB,
            generation INTEGER NOT NULL,
            createdAt INTEGER NOT NULL,
            updatedAt INTEGER NOT NULL,
            mac BLOB NOT NULL,
            PRIMARY KEY (container, id)
        ) STRICT
        """,
        "CREATE INDEX recordKind ON record (container, kind)",
        "CREATE INDEX recordKey ON record (container) WHERE hardwareKey IS NOT NULL",
        """
        CREATE TABLE recordAttribute (
            container TEXT NOT NULL,
            name TEXT NOT NULL,
            value TEXT NOT NULL,
            id TEXT NOT NULL,
            PRIMARY KEY (container, name, value, id)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE revocation (
            container TEXT NOT NULL,
            name TEXT NOT NULL,
            sealed BLOB NOT NULL,
            isDue INTEGER NOT NULL,
            PRIMARY KEY (container, name)
        ) STRICT
        """,
    ]
}

extension DatabaseError {
    /// Whether the directory or the disk cannot be written.
    fileprivate var preventsWriting: Bool {
        switch resultCode {
        case .SQLITE_READONLY, .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_FULL: true
        default: extendedResultCode == .SQLITE_IOERR_SHMSIZE
        }
    }
}

/// A line of `sqlite_schema`: a table, an index, a trigger or a view.
private struct Definition: Hashable {
    let type: String
    let name: String
    /// The table of the definition, in lower case: SQLite's names are case-insensitive.
    let table: String
    /// The SQL statement, with each sequence of white space replaced by one space: line breaks do
    /// not matter.
    let statement: String

    /// - Parameter sql: `CREATE TABLE name …` or `CREATE INDEX name ON table …`, with a space after
    ///   each of these words. SQLite stores such a statement unchanged.
    init(sql: String) {
        let words = sql.split(whereSeparator: \.isWhitespace)
        let isIndex = words[1] == "INDEX"
        self.init(
            type: isIndex ? "index" : "table", name: String(words[2]),
            table: String(words[isIndex ? 4 : 2]), sql: sql)
    }

    init(type: String, name: String, table: String, sql: String) {
        self.type = type
        self.name = name
        self.table = table.lowercased()
        let words = sql.utf8.split { $0 == 0x20 || (0x09...0x0d).contains($0) }
        statement = String(decoding: Array(words.joined(separator: [0x20])), as: UTF8.self)
    }

    /// Reads all definitions except the indexes that SQLite creates for primary keys and unique
    /// columns.
    static func fetchAll(_ database: Database) throws -> Set<Definition> {
        let rows = try Row.fetchAll(
            database,
            sql: "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return try Set(
            rows.map { row in
                try Definition(
                    type: row.decode(forColumn: "type"), name: row.decode(forColumn: "name"),
                    table: row.decode(forColumn: "tbl_name"), sql: row.decode(forColumn: "sql"))
            })
    }
}
