import LatchkeyRelyingParty

/// The server's tables. Times are seconds since 1970. Tokens and codes are stored as SHA-256 digests
/// only.
enum IdentitySchema {
    /// The project of all devices in the library's tables.
    static let project = "latchkey"

    /// Those of the library's stores, and those of the server.
    static let migrations =
        DatabaseChallengeStore.migrations + DatabaseDeviceRegistry.migrations
        + LockerRegistry.migrations + DatabaseApprovalKeyRegistry.migrations
        + [SQLMigration("identity 1", sqlite: sqlite, postgreSQL: postgreSQL)]

    /// Deleting a device, an enrolment or an easy-access key deletes its grants. `name_key` is the
    /// user's name with ASCII letters in lower case.
    private static let sqlite = """
        CREATE TABLE "user" (
            id TEXT PRIMARY KEY NOT NULL,
            username TEXT NOT NULL,
            name_key TEXT NOT NULL UNIQUE,
            password TEXT NOT NULL,
            created_at REAL NOT NULL
        ) STRICT;
        CREATE TABLE offline_grant (
            id TEXT PRIMARY KEY NOT NULL,
            client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
            device_id TEXT REFERENCES latchkey_device (id) ON DELETE CASCADE,
            enrolment_id TEXT REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
            easy_access_kid TEXT,
            scope TEXT NOT NULL,
            amr TEXT,
            auth_time REAL NOT NULL,
            expires_at REAL NOT NULL,
            idle_expires_at REAL NOT NULL,
            dpop_jkt TEXT,
            refresh_family BLOB,
            refresh_digest BLOB,
            FOREIGN KEY (enrolment_id, easy_access_kid)
                REFERENCES latchkey_locker_easy_access_key (enrolment_id, kid) ON DELETE CASCADE
        ) STRICT;
        CREATE TABLE access_token (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE,
            dpop_jkt TEXT,
            expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE dpop_proof (
            digest BLOB PRIMARY KEY NOT NULL,
            expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE authorization_code (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL,
            client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
            redirect_uri TEXT NOT NULL,
            code_challenge TEXT NOT NULL,
            scope TEXT NOT NULL,
            nonce TEXT,
            dpop_jkt TEXT,
            auth_time REAL NOT NULL,
            expires_at REAL NOT NULL,
            is_used INTEGER NOT NULL,
            is_reauthentication INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE web_session (
            digest BLOB PRIMARY KEY NOT NULL,
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
            grant_id TEXT REFERENCES offline_grant (id) ON DELETE CASCADE,
            expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE app_session_token (
            digest BLOB PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE,
            expires_at REAL NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE secret (
            name TEXT PRIMARY KEY NOT NULL,
            value BLOB NOT NULL
        ) STRICT;
        CREATE TABLE pending_activation (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            user_id TEXT NOT NULL,
            state TEXT NOT NULL,
            expires_at REAL NOT NULL
        ) STRICT;
        """ + indexes

    private static let postgreSQL = """
        CREATE TABLE "user" (
            id TEXT PRIMARY KEY NOT NULL,
            username TEXT NOT NULL,
            name_key TEXT NOT NULL UNIQUE,
            password TEXT NOT NULL,
            created_at DOUBLE PRECISION NOT NULL
        );
        CREATE TABLE offline_grant (
            id TEXT PRIMARY KEY NOT NULL,
            client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
            device_id TEXT REFERENCES latchkey_device (id) ON DELETE CASCADE,
            enrolment_id TEXT REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE,
            easy_access_kid TEXT,
            scope TEXT NOT NULL,
            amr TEXT,
            auth_time DOUBLE PRECISION NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL,
            idle_expires_at DOUBLE PRECISION NOT NULL,
            dpop_jkt TEXT,
            refresh_family BYTEA,
            refresh_digest BYTEA,
            FOREIGN KEY (enrolment_id, easy_access_kid)
                REFERENCES latchkey_locker_easy_access_key (enrolment_id, kid) ON DELETE CASCADE
        );
        CREATE TABLE access_token (
            digest BYTEA PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE,
            dpop_jkt TEXT,
            expires_at DOUBLE PRECISION NOT NULL
        );
        CREATE TABLE dpop_proof (
            digest BYTEA PRIMARY KEY NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL
        );
        CREATE TABLE authorization_code (
            digest BYTEA PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL,
            client_id TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
            redirect_uri TEXT NOT NULL,
            code_challenge TEXT NOT NULL,
            scope TEXT NOT NULL,
            nonce TEXT,
            dpop_jkt TEXT,
            auth_time DOUBLE PRECISION NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL,
            is_used BOOLEAN NOT NULL,
            is_reauthentication BOOLEAN NOT NULL
        );
        CREATE TABLE web_session (
            digest BYTEA PRIMARY KEY NOT NULL,
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
            grant_id TEXT REFERENCES offline_grant (id) ON DELETE CASCADE,
            expires_at DOUBLE PRECISION NOT NULL
        );
        CREATE TABLE app_session_token (
            digest BYTEA PRIMARY KEY NOT NULL,
            grant_id TEXT NOT NULL REFERENCES offline_grant (id) ON DELETE CASCADE,
            expires_at DOUBLE PRECISION NOT NULL
        );
        CREATE TABLE secret (
            name TEXT PRIMARY KEY NOT NULL,
            value BYTEA NOT NULL
        );
        CREATE TABLE pending_activation (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            user_id TEXT NOT NULL,
            state TEXT NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL
        );
        """ + indexes

    /// The same in both engines.
    private static let indexes = """

        CREATE INDEX offline_grant_device ON offline_grant (device_id);
        CREATE INDEX offline_grant_user ON offline_grant (user_id);
        CREATE INDEX offline_grant_enrolment ON offline_grant (enrolment_id, easy_access_kid);
        CREATE INDEX offline_grant_expiry ON offline_grant (idle_expires_at);
        CREATE INDEX access_token_grant ON access_token (grant_id);
        CREATE INDEX access_token_expiry ON access_token (expires_at);
        CREATE INDEX dpop_proof_expiry ON dpop_proof (expires_at);
        CREATE INDEX authorization_code_expiry ON authorization_code (expires_at);
        CREATE INDEX authorization_code_user ON authorization_code (user_id);
        CREATE INDEX web_session_expiry ON web_session (expires_at);
        CREATE INDEX web_session_user ON web_session (user_id);
        CREATE INDEX web_session_grant ON web_session (grant_id);
        CREATE INDEX app_session_token_grant ON app_session_token (grant_id);
        CREATE INDEX app_session_token_expiry ON app_session_token (expires_at);
        CREATE INDEX pending_activation_user ON pending_activation (user_id);
        CREATE INDEX pending_activation_expiry ON pending_activation (expires_at);
        """
}
