import FoundationEssentials
import GRDB
import Glibc
import LatchkeyRelyingParty

/// The server's SQLite database.
enum IdentityDatabase {
    /// Opens a file, or a database in memory when `path` is nil, and brings it to the present schema.
    ///
    /// A new file can be read by its owner only, for it holds the key that signs ID tokens. A file that others can
    /// read, or that is another's, is refused.
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
            // GRDB lowers it for WAL, after all else: a server whose power failed would not know what it told its clients.
            try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        } else {
            database = try DatabaseQueue(configuration: configuration)
        }
        var migrator = DatabaseMigrator()
        DatabaseChallengeStore.registerMigrations(&migrator)
        DatabaseDeviceRegistry.registerMigrations(&migrator)
        DatabaseLockerRegistry.registerMigrations(&migrator)
        migrator.registerMigration("identity 1") { try $0.execute(sql: schema) }
        migrator.registerMigration("identity 2") { try $0.execute(sql: lockerSchema) }
        migrator.registerMigration("identity 3") { try $0.execute(sql: easyAccessSchema) }
        try migrator.migrate(database)
        return database
    }

    private static func ensurePrivateFile(_ path: String) throws {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw errno == ELOOP
                ? ConfigurationError("the database \(path) is a symbolic link; give the path of the file itself")
                : ConfigurationError("can't open the database \(path): \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            throw ConfigurationError("can't look at the database \(path): \(String(cString: strerror(errno)))")
        }
        try check(status, path)
        // What SQLite keeps beside the database holds the same, and need not have got its permissions.
        for companion in ["-wal", "-shm", "-journal"].map({ path + $0 }) where lstat(companion, &status) == 0 {
            try check(status, companion)
        }
    }

    private static func check(_ status: stat, _ path: String) throws {
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw ConfigurationError("the database \(path) is not a regular file; give another path")
        }
        guard status.st_uid == geteuid() else {
            throw ConfigurationError(
                "the database \(path) belongs to another user; run as that user, or change its owner with chown")
        }
        guard status.st_mode & 0o077 == 0 else {
            throw ConfigurationError(
                """
                others may have read the database \(path), which holds the key that signs ID tokens; make a new \
                database, or, if you know that nobody has, run: chmod 600 \(path)
                """)
        }
    }

    /// Times are seconds since 1970. Of tokens and codes only SHA-256 is kept.
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

    /// What came of an enrolment ends with it, and an enrolment ends with its user.
    private static let lockerSchema = """
        ALTER TABLE offline_grant ADD COLUMN enrolment_id TEXT
            REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE;
        CREATE INDEX offline_grant_enrolment ON offline_grant (enrolment_id);
        CREATE TRIGGER user_enrolments AFTER DELETE ON user BEGIN
            DELETE FROM latchkey_locker_enrolment WHERE user_id = OLD.id;
        END;
        """

    /// What came of an easy-access key ends with it. Of earlier sessions nobody knows the key, so they end now, with their
    /// tokens: foreign keys do nothing while a migration is at work.
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
