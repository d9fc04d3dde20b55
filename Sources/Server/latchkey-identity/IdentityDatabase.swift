import FoundationEssentials
import GRDB
import Glibc
import Latchkey
import LatchkeyPostgreSQL
import LatchkeyRelyingParty
import SystemPackage

/// The server's database: a SQLite file, memory, or PostgreSQL.
enum IdentityDatabase {
    /// What a command does with a database that lacks tables of this version.
    enum Tables {
        /// Creates the SQLite file and the tables, or changes the tables of an earlier version.
        case migrated
        /// Changes nothing, and reports the missing file or tables.
        case required
    }

    /// Opens a database.
    ///
    /// - Parameters:
    ///   - location: The URI of a PostgreSQL database or the path of a SQLite file; nil for the
    ///     configured database.
    ///   - standard: The location if neither `location` nor the configuration names one; nil for
    ///     memory.
    /// - Throws: ``ConfigurationError``, also if both name one.
    static func open(
        location: String?, configuration: DatabaseConfiguration? = nil, standard: String? = nil,
        tables: Tables = .migrated
    ) async throws -> any SQLDatabase {
        guard location == nil || configuration?.address == nil else {
            throw ConfigurationError(
                "the option --database and the member database.address of the configuration each name a database",
                "Remove one of them.")
        }
        guard let address = location ?? configuration?.address ?? standard else {
            return try open(path: nil)
        }
        guard PostgreSQLConfiguration.isAddress(address) else {
            guard !address.contains("://") else {
                throw ConfigurationError(
                    "the address of the database does not begin with postgresql://",
                    "Use postgresql://HOST/DATABASE, or the path of a SQLite file.")
            }
            let database = try open(path: address, tables: tables)
            if tables == .required { try await requireTables(of: database) }
            return database
        }
        do {
            let database = try PostgreSQLDatabase(
                (configuration ?? DatabaseConfiguration()).postgreSQL(address: address))
            switch tables {
            case .migrated: try await database.migrate(IdentitySchema.migrations)
            case .required: try await requireTables(of: database)
            }
            return database
        } catch let error as PostgreSQLConfigurationError {
            throw ConfigurationError(sentences: error.description)
        } catch let error as SQLFailure {
            throw ConfigurationError(
                "the database cannot be used: \(error)",
                "Check its address, its log and the password file.")
        }
    }

    /// Checks that a database has all tables of this version. Changes nothing.
    private static func requireTables(of database: any SQLDatabase) async throws {
        let applied = try await database.read { database -> Set<String> in
            let record: SQLText
            let names: SQLText
            switch database.dialect {
            case .sqlite:
                record = "SELECT 1 FROM sqlite_master WHERE name = 'grdb_migrations'"
                names = "SELECT identifier AS name FROM grdb_migrations"
            case .postgreSQL:
                record = "SELECT 1 FROM pg_class WHERE oid = to_regclass('latchkey_migration')"
                names = "SELECT name FROM latchkey_migration"
            }
            guard try database.row(record) != nil else { return [] }
            return Set(try database.rows(names).map { try $0.text("name") })
        }
        let missing = IdentitySchema.migrations.filter { !applied.contains($0.name) }
        guard missing.count < IdentitySchema.migrations.count else {
            throw ConfigurationError(
                "the database contains no tables of latchkey-identity",
                "Check its address, or create the tables with: latchkey-identity migrate")
        }
        guard missing.isEmpty else {
            throw ConfigurationError(
                "the tables of the database are those of an earlier version",
                "Change them with: latchkey-identity migrate")
        }
    }

    /// Opens a file, or a database in memory if `path` is nil.
    ///
    /// A new file is readable by its owner only, because it contains keys without encryption.
    ///
    /// - Parameter tables: With `required`, the caller checks the tables.
    /// - Throws: ``ConfigurationError`` if the file belongs to another user or other users can read
    ///   it.
    static func open(path: String?, tables: Tables = .migrated) throws -> SQLiteDatabase {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(5)
        // A file that must exist keeps its journal mode.
        configuration.journalMode = path == nil || tables == .required ? .default : .wal
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        let database: DatabaseQueue
        if let path {
            try ensurePrivateFile(path, creating: tables == .migrated)
            database = try DatabaseQueue(path: path, configuration: configuration)
            // In WAL mode GRDB sets synchronous to NORMAL: a power failure could lose commits that
            // clients know of.
            try database.writeWithoutTransaction {
                try $0.execute(sql: "PRAGMA synchronous = FULL")
            }
        } else {
            database = try DatabaseQueue(configuration: configuration)
        }
        if tables == .migrated {
            var migrator = DatabaseMigrator()
            migrator.register(IdentitySchema.migrations)
            try migrator.migrate(database)
        }
        return SQLiteDatabase(database)
    }

    private static func ensurePrivateFile(_ path: String, creating: Bool) throws {
        let flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (creating ? O_CREAT : 0)
        let descriptor = Glibc.open(path, flags, 0o600)
        guard descriptor >= 0 else {
            switch errno {
            case ELOOP:
                throw unusable(path, "is a symbolic link", "Give the path of the file itself.")
            case ENOENT where !creating:
                throw unusable(
                    path, "does not exist",
                    "Check the path, or create the database with: latchkey-identity migrate")
            case let number:
                throw unusable(
                    path, "cannot be opened: \(String(cString: strerror(number)))",
                    "Give another path.")
            }
        }
        close(descriptor)
        // SQLite's journals contain the same data, and their permissions can differ.
        for (path, isRequired) in [
            (path, true), (path + "-wal", false), (path + "-shm", false),
            (path + "-journal", false),
        ] {
            let status: Stat
            do {
                status = try Stat(FilePath(path), followTargetSymlink: false)
            } catch {
                guard isRequired else { continue }
                throw unusable(path, "cannot be opened: \(error)", "Give another path.")
            }
            guard status.type == .regular else {
                throw unusable(path, "is not a regular file", "Give another path.")
            }
            guard status.userID.rawValue == geteuid() else {
                throw unusable(
                    path, "belongs to another user",
                    "Run as that user, or change its owner with chown.")
            }
            guard
                status.permissions.isDisjoint(with: [
                    .groupReadWriteExecute, .otherReadWriteExecute,
                ])
            else {
                throw unusable(
                    path, "is accessible to other users and contains the key that signs ID tokens",
                    "Create a new database, or, if no other user has read it, run: chmod 600 \(path)"
                )
            }
        }
    }

    private static func unusable(_ path: String, _ cause: String, _ recovery: String)
        -> ConfigurationError
    {
        ConfigurationError("the database \(path) \(cause)", recovery)
    }
}

/// The server's persistent secrets, created on first use.
struct SecretStore: Sendable {
    let database: any SQLDatabase
    /// nil if there is no signing key file.
    let cipher: SigningKeyCipher?

    /// Returns the secret of this name. If several processes create it at the same time, all get
    /// the one stored first.
    func value(_ name: String, orMake make: @escaping @Sendable () throws -> Data) async throws
        -> Data
    {
        try await database.write { database in
            if let row = try database.row("SELECT value FROM secret WHERE name = \(name)") {
                return try row.blob("value")
            }
            try database.lock("secret \(name)")
            if let row = try database.row("SELECT value FROM secret WHERE name = \(name)") {
                return try row.blob("value")
            }
            let value = try make()
            try database.execute("INSERT INTO secret (name, value) VALUES (\(name), \(value))")
            return value
        }
    }

    /// Returns the signing key of this name, which the signing key file encrypts in the database.
    ///
    /// - Throws: ``ConfigurationError`` if the file is missing or another one, or the key is not
    ///   encrypted although there is a file.
    func signingKey(_ name: String, orMake make: @escaping @Sendable () throws -> Data) async throws
        -> Data
    {
        let row = SigningKeyCipher.Row(kid: name)
        let stored = try await value(name) { [cipher] in
            try SigningKeyCipher.seal(SecretBytes(make()), row, with: cipher)
        }
        return try SigningKeyCipher.open(stored, row, with: cipher).withUnsafeBytes { Data($0) }
    }
}
