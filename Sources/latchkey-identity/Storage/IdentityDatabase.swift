import FoundationEssentials
import GRDB
import Glibc
import LatchkeyRelyingParty

/// The server's SQLite database.
enum IdentityDatabase {
    /// Opens a file, or a database in memory when `path` is nil, and brings it to the present schema.
    ///
    /// A new file can be read by its owner only: it holds the key that signs ID tokens.
    static func open(path: String?) throws -> any DatabaseWriter {
        var configuration = GRDB.Configuration()
        configuration.busyMode = .timeout(5)
        configuration.journalMode = path == nil ? .default : .wal
        configuration.prepareDatabase { database in
            try database.execute(sql: "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;")
        }
        let database: DatabaseQueue
        if let path {
            try createPrivateFile(path)
            database = try DatabaseQueue(path: path, configuration: configuration)
        } else {
            database = try DatabaseQueue(configuration: configuration)
        }
        var migrator = DatabaseMigrator()
        DatabaseChallengeStore.registerMigrations(&migrator)
        DatabaseDeviceRegistry.registerMigrations(&migrator)
        migrator.registerMigration("identity 1") { try $0.execute(sql: schema) }
        try migrator.migrate(database)
        return database
    }

    private static func createPrivateFile(_ path: String) throws {
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw ConfigurationError("can't open the database \(path): \(String(cString: strerror(errno)))")
        }
        close(descriptor)
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
}
