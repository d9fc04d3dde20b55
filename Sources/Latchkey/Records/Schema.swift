internal import Dispatch
internal import GRDB
internal import Glibc

/// Threads for opening databases.
let databaseThreads = DispatchQueue(label: "latchkey.records.open", attributes: .concurrent)

/// The tables, and how a store gets them.
enum Schema {
    /// Marks the file as a Latchkey store (SQLite's `application_id`): the characters `Ltch`.
    private static let applicationID = 0x4C74_6368

    /// Opens the store's file, which may be empty, and brings its tables up to date. A file that is not a store, a store of a
    /// newer version and a store whose definitions were changed are refused and left as they are.
    static func openDatabase(at path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = "latchkey.records"
        configuration.busyMode = .timeout(patience)
        // No table of ours has a foreign key, and a table of another program must not keep our rows from being deleted.
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA synchronous = FULL;
                    PRAGMA secure_delete = ON;
                    PRAGMA trusted_schema = OFF;
                    """)
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        // SQLite waits for other processes, but not where two change the kind of journal at once.
        let deadline = ContinuousClock.now + .seconds(patience)
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
        let isCurrent = try queue.read { try appliedMigrations($0) == migrations.count }
        // This changes the file, so it comes after the check. SQLite cannot do it within a transaction.
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        guard !isCurrent else { return }
        // The transaction takes the write lock first: of several processes one migrates, and the others find it done.
        try queue.write { try migrate($0, from: appliedMigrations($0), to: migrations.count) }
    }

    /// For how many seconds to wait for another process.
    private static let patience: Double = 5

    /// Checks what the file is, and counts the migrations that it has had.
    ///
    /// The guarantee: every later write does what it says. A program that could write the file once can delete the rows
    /// that are there; only a definition acts on rows that are not there yet. A trigger, a unique index or a constraint on
    /// one of our tables could remove the note of a revocation in the transaction that makes it. So triggers are refused,
    /// and the definitions on our tables must be those of the migrations. Other tables change no write, and are accepted:
    /// SQLite's own (`sqlite_stat1`, from `ANALYZE`), and those of programs that replicate the file.
    ///
    /// Nothing that is missing is made again: a missing table, or a missing line of `grdb_migrations`, is damage. A migration
    /// that this version does not know makes the store one of a newer version, whatever its tables are.
    ///
    /// - Returns: 0 for an empty file.
    /// - Throws: ``KeystoreError``: `damaged`, or `unsupported` for a store of a newer version.
    private static func appliedMigrations(_ database: Database) throws -> Int {
        let application = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let standing = try Definition.fetchAll(database)
        guard application == applicationID else {
            guard application == 0, standing.isEmpty else {
                throw KeystoreError.damaged("open the store", "the file is a database of another program")
            }
            return 0
        }
        guard standing.contains(migrationList) else {
            throw KeystoreError.damaged("open the store", "its list of migrations is missing or changed")
        }
        let applied = try String.fetchSet(database, sql: "SELECT identifier FROM grdb_migrations")
        guard applied.isSubset(of: migrations.map(\.version)) else {
            throw KeystoreError.unsupported(
                "open the store", "it was made by a newer version", recovery: "Install that version of Latchkey.")
        }
        guard !applied.isEmpty, applied == Set(migrations.prefix(applied.count).map(\.version)) else {
            throw KeystoreError.damaged("open the store", "its list of migrations is missing or changed")
        }
        let tables = try Set(definitions(after: migrations.count).map(\.table))
        let relevant = standing.filter { $0.type == "trigger" || tables.contains($0.table) }
        guard try relevant == definitions(after: applied.count) else {
            throw KeystoreError.damaged("open the store", "its tables are not as Latchkey makes them")
        }
        return applied.count
    }

    /// The definitions in a store after so many migrations.
    private static func definitions(after count: Int) throws -> Set<Definition> {
        try DatabaseQueue().write { database in
            try migrate(database, from: 0, to: count)
            return try Definition.fetchAll(database)
        }
    }

    private static func migrate(_ database: Database, from first: Int, to end: Int) throws {
        if first == 0 {
            try database.execute(sql: "PRAGMA application_id = \(applicationID); \(migrationListSQL)")
        }
        for migration in migrations[first..<end] {
            try database.execute(sql: migration.sql)
            try database.execute(
                sql: "INSERT INTO grdb_migrations (identifier) VALUES (?)", arguments: [migration.version])
        }
    }

    /// As GRDB's migrator made it in the stores of earlier versions.
    private static let migrationListSQL = "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)"

    private static let migrationList = Definition(
        type: "table", name: "grdb_migrations", table: "grdb_migrations", sql: migrationListSQL)

    private static let migrations: [(version: String, sql: String)] = [
        (
            "1",
            """
            CREATE TABLE anchor (
                name TEXT NOT NULL PRIMARY KEY,
                value BLOB NOT NULL
            ) STRICT;
            CREATE TABLE container (
                name TEXT NOT NULL PRIMARY KEY,
                generation INTEGER NOT NULL
            ) STRICT;
            CREATE TABLE classKey (
                container TEXT NOT NULL,
                name TEXT NOT NULL,
                sealed BLOB NOT NULL,
                generation INTEGER NOT NULL,
                PRIMARY KEY (container, name)
            ) STRICT;
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
            ) STRICT;
            CREATE INDEX recordKind ON record (container, kind);
            CREATE INDEX recordKey ON record (container) WHERE hardwareKey IS NOT NULL;
            """
        ),
        (
            "2",
            """
            CREATE TABLE recordAttribute (
                container TEXT NOT NULL,
                name TEXT NOT NULL,
                value TEXT NOT NULL,
                id TEXT NOT NULL,
                PRIMARY KEY (container, name, value, id)
            ) STRICT, WITHOUT ROWID;
            INSERT OR IGNORE INTO recordAttribute (container, name, value, id)
                SELECT record.container, attribute.key, attribute.value, record.id
                FROM record, json_each(iif(json_valid(record.attributes), record.attributes, '{}')) AS attribute
                WHERE attribute.type = 'text';
            """
        ),
        (
            "3",
            """
            CREATE TABLE revocation (
                container TEXT NOT NULL,
                name TEXT NOT NULL,
                sealed BLOB NOT NULL,
                isDue INTEGER NOT NULL,
                PRIMARY KEY (container, name)
            ) STRICT;
            """
        ),
    ]
}

/// A line of `sqlite_schema`: a table, an index, a trigger or a view.
private struct Definition: Hashable {
    let type: String
    let name: String
    /// The table that it belongs to, in lower case: SQLite's names have no case.
    let table: String
    /// The statement that made it, without regard to how it was broken into lines.
    let words: [Substring]

    init(type: String, name: String, table: String, sql: String) {
        self.type = type
        self.name = name
        self.table = table.lowercased()
        words = sql.split(whereSeparator: \.isWhitespace)
    }

    /// All but the indexes that SQLite makes for a primary key or a unique column, which have no statement.
    static func fetchAll(_ database: Database) throws -> Set<Definition> {
        let rows = try Row.fetchAll(
            database, sql: "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return try Set(
            rows.map { row in
                try Definition(
                    type: row.decode(forColumn: "type"), name: row.decode(forColumn: "name"),
                    table: row.decode(forColumn: "tbl_name"), sql: row.decode(forColumn: "sql"))
            })
    }
}
