internal import Dispatch
internal import GRDB
internal import Glibc

/// Threads for opening databases.
let databaseThreads = DispatchQueue(label: "latchkey.records.open", attributes: .concurrent)

/// The tables, their migrations, and the check of a store's definitions.
enum Schema {
    /// Marks the file as a Latchkey store (SQLite's `application_id`): the characters `Ltch`.
    private static let applicationID = 0x4C74_6368

    /// Opens the store's file, which may be empty, and migrates its tables. Refuses a file that is
    /// not a store, a store of a newer version, and a store whose definitions were changed, and
    /// does not change them.
    static func openDatabase(at path: String) throws -> DatabaseQueue {
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
        let isCurrent = try queue.read { try appliedMigrations($0) == migrations.count }
        // This changes the file, so it comes after the check. SQLite cannot do it within a
        // transaction.
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        guard !isCurrent else { return }
        // The transaction takes the write lock first: one process migrates, and the others then
        // find the tables current.
        try queue.write { try migrate($0, from: appliedMigrations($0), to: migrations.count) }
    }

    /// How many seconds to wait for another process.
    private static let busyTimeout: Double = 5

    /// Checks the kind of file, and counts the migrations that were applied.
    ///
    /// The guarantee: every later write has exactly its stated effect. A program that could write
    /// the file once can delete existing rows; only a definition acts on rows that are written
    /// later. A trigger, a unique index or a constraint on one of our tables could delete the
    /// record of a revocation in the transaction that writes it. So triggers are refused, and the
    /// definitions on our tables must be those of the migrations. Other tables affect no write, and
    /// are accepted: SQLite's own (`sqlite_stat1`, from `ANALYZE`), and those of programs that
    /// replicate the file.
    ///
    /// Missing parts are not created again: a missing table, or a missing line of
    /// `grdb_migrations`, is damage. A migration that this version does not know makes the store
    /// one of a newer version, regardless of its tables.
    ///
    /// - Returns: 0 for an empty file.
    /// - Throws: ``CommonError``: `damaged`, or `unsupported` for a store of a newer version.
    private static func appliedMigrations(_ database: Database) throws -> Int {
        let application = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let existing = try Definition.fetchAll(database)
        guard application == applicationID else {
            guard application == 0, existing.isEmpty else {
                throw CommonError.damaged("the store's file is a database of another program")
            }
            return 0
        }
        guard existing.contains(migrationList) else {
            throw CommonError.damaged("the store's list of migrations is missing or changed")
        }
        let applied = try String.fetchSet(database, sql: "SELECT identifier FROM grdb_migrations")
        guard applied.isSubset(of: migrations.map(\.version)) else {
            throw CommonError.unsupported(
                "a newer version of Latchkey created the store",
                recovery: "Install that version of Latchkey.")
        }
        guard !applied.isEmpty, applied == Set(migrations.prefix(applied.count).map(\.version))
        else {
            throw CommonError.damaged("the store's list of migrations is missing or changed")
        }
        let relevant = existing.filter { $0.type == "trigger" || tables.contains($0.table) }
        guard
            relevant
                == (applied.count == migrations.count ? current : definitions(after: applied.count))
        else {
            throw CommonError.damaged(
                "the store's tables differ from those that Latchkey creates")
        }
        return applied.count
    }

    /// The names of the tables with the store's contents: all of Latchkey's tables except the list
    /// of migrations.
    static var contents: Set<String> { tables.subtracting([migrationList.table]) }

    private static let tables = Set(current.map(\.table))

    /// The definitions in a store of this version.
    private static let current = definitions(after: migrations.count)

    /// The definitions in a store after this number of migrations.
    private static func definitions(after count: Int) -> Set<Definition> {
        Set(migrations.prefix(count).flatMap { $0.definitions.map(Definition.init) }).union([
            migrationList
        ])
    }

    private static func migrate(_ database: Database, from first: Int, to end: Int) throws {
        if first == 0 {
            try database.execute(
                sql: "PRAGMA application_id = \(applicationID); \(migrationListSQL)")
        }
        for migration in migrations[first..<end] {
            for definition in migration.definitions { try database.execute(sql: definition) }
            if let filling = migration.filling { try database.execute(sql: filling) }
            try database.execute(
                sql: "INSERT INTO grdb_migrations (identifier) VALUES (?)",
                arguments: [migration.version])
        }
    }

    /// As GRDB's migrator created it in the stores of earlier versions.
    private static let migrationListSQL =
        "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)"

    private static let migrationList = Definition(sql: migrationListSQL)

    private static let migrations = [
        Migration(
            version: "1",
            definitions: [
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
            ]),
        Migration(
            version: "2",
            definitions: [
                """
                CREATE TABLE recordAttribute (
                    container TEXT NOT NULL,
                    name TEXT NOT NULL,
                    value TEXT NOT NULL,
                    id TEXT NOT NULL,
                    PRIMARY KEY (container, name, value, id)
                ) STRICT, WITHOUT ROWID
                """
            ],
            filling: """
                INSERT OR IGNORE INTO recordAttribute (container, name, value, id)
                    SELECT record.container, attribute.key, attribute.value, record.id
                    FROM record, json_each(iif(json_valid(record.attributes), record.attributes, '{}')) AS attribute
                    WHERE attribute.type = 'text'
                """),
        Migration(
            version: "3",
            definitions: [
                """
                CREATE TABLE revocation (
                    container TEXT NOT NULL,
                    name TEXT NOT NULL,
                    sealed BLOB NOT NULL,
                    isDue INTEGER NOT NULL,
                    PRIMARY KEY (container, name)
                ) STRICT
                """
            ]),
    ]
}

/// A step from one version of the tables to the next.
private struct Migration {
    let version: String
    /// The statements that create tables and indexes.
    let definitions: [String]
    /// The statement that fills the new tables from the existing ones.
    var filling: String?
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
