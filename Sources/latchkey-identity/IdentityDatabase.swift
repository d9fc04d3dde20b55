import FoundationEssentials
import GRDB
import Glibc
import LatchkeyRelyingParty

/// The server's SQLite database.
enum IdentityDatabase {
    /// Opens a file, or a database in memory if `path` is nil, and migrates it to the current schema.
    ///
    /// A new file is readable by its owner only, because it contains the key that signs ID tokens.
    ///
    /// - Throws: ``ConfigurationError`` if the file belongs to another user or other users can read it.
    static func open(path: String?) throws -> any DatabaseWriter {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(5)
        configuration.journalMode = path == nil ? .default : .wal
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA secure_delete = ON")
        }
        let database: DatabaseQueue
        if let path {
            try ensurePrivateFile(path)
            database = try DatabaseQueue(path: path, configuration: configuration)
            // In WAL mode GRDB sets synchronous to NORMAL: a power failure could lose commits that clients know of.
            try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        } else {
            database = try DatabaseQueue(configuration: configuration)
        }
        var migrator = DatabaseMigrator()
        DatabaseChallengeStore.registerMigrations(&migrator)
        DatabaseDeviceRegistry.registerMigrations(&migrator)
        LockerRegistry.registerMigrations(&migrator)
        DatabaseApprovalKeyRegistry.registerMigrations(&migrator)
        migrator.registerMigration("identity 1") { try $0.execute(sql: schema) }
        migrator.registerMigration("identity 2") { try $0.execute(sql: lockerSchema) }
        migrator.registerMigration("identity 3") { try $0.execute(sql: easyAccessSchema) }
        try migrator.migrate(database)
        return database
    }

    private static func ensurePrivateFile(_ path: String) throws {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            guard errno != ELOOP else {
                throw unusable(path, "is a symbolic link", "Give the path of the file itself.")
            }
            throw unusable(path, "cannot be opened: \(String(cString: strerror(errno)))", "Give another path.")
        }
        close(descriptor)
        // SQLite's journals contain the same data, and their permissions can differ.
        for (path, isRequired) in [
            (path, true), (path + "-wal", false), (path + "-shm", false), (path + "-journal", false),
        ] {
            var status = stat()
            guard lstat(path, &status) == 0 else {
                guard isRequired else { continue }
                throw unusable(path, "cannot be opened: \(String(cString: strerror(errno)))", "Give another path.")
            }
            guard status.st_mode & S_IFMT == S_IFREG else {
                throw unusable(path, "is not a regular file", "Give another path.")
            }
            guard status.st_uid == geteuid() else {
                throw unusable(path, "belongs to another user", "Run as that user, or change its owner with chown.")
            }
            guard status.st_mode & 0o077 == 0 else {
                throw unusable(
                    path, "is accessible to other users and contains the key that signs ID tokens",
                    "Create a new database, or, if no other user has read it, run: chmod 600 \(path)")
            }
        }
    }

    private static func unusable(_ path: String, _ cause: String, _ recovery: String) -> ConfigurationError {
        ConfigurationError("the database \(path) \(cause)", recovery)
    }

    /// Times are seconds since 1970. Tokens and codes are stored as SHA-256 digests only.
    private static let schema = """
        CREATE TABLE user (
            id TEXT PRIMARY KEY NOT NULL,
            username TEXT NOT NULL UNIQUE COLLATE NOCASE,
            password TEXT NOT NULL,
            is_anonymous INTEGER NOT NULL,
            is_disabled INTEGER NOT NULL,
            created_at REAL NOT NULL
        ) STRICT;
        CREATE TABLE offline_grant (
            id TEXT PRIMARY KEY NOT NULL,
            client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
            device_id TEXT,
            scope TEXT NOT NULL,
            amr TEXT,
            auth_time REAL NOT NULL,
            expires_at REAL NOT NULL,
            idle_expires_at REAL NOT NULL,
            device_info TEXT
        ) STRICT;
        CREATE INDEX offline_grant_device ON offline_grant (device_id);
        CREATE INDEX offline_grant_user ON offline_grant (user_id);
        CREATE TABLE refresh_token (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE,
            is_used INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX refresh_token_grant ON refresh_token (grant_id);
        CREATE TABLE access_token (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE,
            expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX access_token_grant ON access_token (grant_id);
        CREATE INDEX access_token_expiry ON access_token (expires_at);
        CREATE TABLE authorization_code (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL,
            client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
            redirect_uri TEXT NOT NULL,
            code_challenge TEXT NOT NULL,
            scope TEXT NOT NULL,
            nonce TEXT,
            auth_time REAL NOT NULL,
            expires_at REAL NOT NULL,
            is_used INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE web_session (
            digest BLOB PRIMARY KEY NOT NULL,
            user_id TEXT NOT NULL REFERENCES user (id) ON DELETE CASCADE,
            auth_time REAL NOT NULL,
            expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE secret (
            name TEXT PRIMARY KEY NOT NULL,
            value BLOB NOT NULL
        ) STRICT;
        """

    /// Deleting an enrolment deletes its grants; deleting a user deletes the user's enrolments.
    private static let lockerSchema = """
        ALTER TABLE offline_grant ADD COLUMN enrolment_id TEXT
            REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE;
        CREATE INDEX offline_grant_enrolment ON offline_grant (enrolment_id);
        CREATE TRIGGER user_enrolments AFTER DELETE ON user BEGIN
            DELETE FROM latchkey_locker_enrolment WHERE user_id = OLD.id;
        END;
        """

    /// Deleting an easy-access key deletes its grants. Existing easy-access grants do not record their key, so they and
    /// their tokens are deleted here, explicitly: foreign keys are off during a migration.
    private static let easyAccessSchema = """
        DELETE FROM access_token WHERE grant_id IN (SELECT id FROM offline_grant WHERE amr = 'hwk pin');
        DELETE FROM refresh_token WHERE grant_id IN (SELECT id FROM offline_grant WHERE amr = 'hwk pin');
        DELETE FROM offline_grant WHERE amr = 'hwk pin';
        ALTER TABLE offline_grant ADD COLUMN easy_access_kid TEXT;
        CREATE TRIGGER easy_access_grants AFTER DELETE ON latchkey_locker_easy_access_key BEGIN
            DELETE FROM offline_grant WHERE enrolment_id = OLD.enrolment_id AND easy_access_kid = OLD.kid;
        END;
        """
}

/// The server's persistent secrets, created on first use.
struct SecretStore: Sendable {
    let database: any DatabaseWriter

    /// Returns the secret of this name. If two processes create it at the same time, both get the one stored first.
    func value(_ name: String, orMake make: @escaping @Sendable () throws -> Data) async throws -> Data {
        try await database.write { database in
            let query = "SELECT value FROM secret WHERE name = ?"
            if let value = try Data.fetchOne(database, sql: query, arguments: [name]) { return value }
            let value = try make()
            try database.execute(sql: "INSERT INTO secret (name, value) VALUES (?, ?)", arguments: [name, value])
            return value
        }
    }
}
