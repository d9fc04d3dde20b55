internal import Dispatch
internal import GRDB

/// Threads for opening databases.
let databaseThreads = DispatchQueue(label: "latchkey.records.open", attributes: .concurrent)

/// The tables, and how a store gets them.
enum Schema {
    /// Marks the file as a Latchkey store (SQLite's `application_id`): the characters `Ltch`.
    private static let applicationID = 0x4C74_6368

    /// Opens the store's file, which may be empty, and brings its tables up to date. A file that is something else, or a
    /// store of a newer version, is refused and left as it is.
    static func openDatabase(at path: String) throws -> DatabaseQueue {
        let migrator = migrator
        var configuration = Configuration()
        configuration.label = "latchkey.records"
        configuration.busyMode = .timeout(patience)
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA synchronous = FULL;
                    PRAGMA secure_delete = ON;
                    PRAGMA trusted_schema = OFF;
                    """)
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let standing = try queue.read { try isStore($0, for: migrator) }
        // A setting of the file's, so not before it is known to be ours.
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        if !standing {
            try queue.write { database in
                // Another program may have been here meanwhile.
                guard try !isStore(database, for: migrator) else { return }
                try database.execute(sql: "PRAGMA application_id = \(applicationID)")
            }
        }
        try migrator.migrate(queue)
        return queue
    }

    /// For how many seconds to wait for another process.
    private static let patience: Double = 5

    /// Whether the file is a store, and not empty.
    ///
    /// - Throws: ``KeystoreError`` for a file that is neither empty nor a store of this version or an older one, with nothing
    ///   in it but what they have.
    private static func isStore(_ database: Database, for migrator: DatabaseMigrator) throws -> Bool {
        let standing = try Int.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        guard standing == applicationID else {
            let tables = try Int.fetchOne(database, sql: "SELECT count(*) FROM sqlite_schema") ?? 0
            guard standing == 0, tables == 0 else {
                throw KeystoreError.damaged("open the store", "the file is a database of something else")
            }
            return false
        }
        guard try !migrator.hasBeenSuperseded(database) else {
            throw KeystoreError.unsupported(
                "open the store", "it was made by a newer version", recovery: "Install that version of Latchkey.")
        }
        try check(database)
        return true
    }

    /// Sees to it that the file has nothing but our tables, as we made them. What else is in it would change what is written:
    /// a trigger, a view or a foreign key could take away the note of a revocation as it is made.
    private static func check(_ database: Database) throws {
        let standing = try String.fetchAll(
            database,
            sql: """
                SELECT sql FROM sqlite_schema
                WHERE sql IS NOT NULL AND NOT (type = 'table' AND name = 'grdb_migrations')
                """)
        guard standing.allSatisfy({ ours.contains(words(of: $0)) }) else {
            throw KeystoreError.damaged("open the store", "its tables are not as Latchkey makes them")
        }
    }

    /// What makes the tables and indices of every version, as SQLite writes it down.
    private static let ours = Set(
        migrations.flatMap { $0.sql.split(separator: ";") }.map { words(of: String($0)) }.filter {
            $0.first == "CREATE"
        })

    private static func words(of statement: String) -> [Substring] { statement.split(whereSeparator: \.isWhitespace) }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for migration in migrations {
            migrator.registerMigration(migration.version) { try $0.execute(sql: migration.sql) }
        }
        return migrator
    }

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
