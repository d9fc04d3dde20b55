import LatchkeyRelyingParty

/// The server's tables.
enum IdentitySchema {
    /// In the order of their release: a database contains the first ones.
    static let migrations =
        DatabaseChallengeStore.migrations + DatabaseDeviceRegistry.migrations
        + LockerRegistry.migrations
        + DatabaseApprovalKeyRegistry.migrations + [
            SQLMigration(
                "identity 1", sqlite: schema,
                postgreSQL: SQLMigration.postgreSQL(from: schema)
                    .replacing("is_anonymous INTEGER", with: "is_anonymous BOOLEAN")
                    .replacing("is_disabled INTEGER", with: "is_disabled BOOLEAN")
                    .replacing("is_used INTEGER", with: "is_used BOOLEAN")
                    .replacing("UNIQUE COLLATE NOCASE", with: "")
                    + #"CREATE UNIQUE INDEX user_name ON "user" (lower(username COLLATE "C"))"#),
            SQLMigration("identity 2", sqlite: lockerSchema, postgreSQL: postgreSQLLockerSchema),
            SQLMigration(
                "identity 3", sqlite: easyAccessSchema, postgreSQL: postgreSQLEasyAccessSchema),
            SQLMigration(
                "identity 4", sqlite: expirySchema, postgreSQL: expirySchema + rateLimitSchema),
            AuditLog.migration,
            SQLMigration("identity 5", sqlite: signingKeySchema), AuditLog.signingKeyMigration,
        ]

    /// Times are seconds since 1970. Tokens and codes are stored as SHA-256 digests only.
    private static let schema = """
        CREATE TABLE "user" (
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
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
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
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
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
            user_id TEXT NOT NULL REFERENCES "user" (id) ON DELETE CASCADE,
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
        CREATE TRIGGER user_enrolments AFTER DELETE ON "user" BEGIN
            DELETE FROM latchkey_locker_enrolment WHERE user_id = OLD.id;
        END;
        """

    /// Deleting an easy-access key deletes its grants. Existing easy-access grants do not record
    /// their key, so they and their tokens are deleted here, explicitly: foreign keys are off
    /// during a migration.
    private static let easyAccessSchema = """
        DELETE FROM access_token WHERE grant_id IN (SELECT id FROM offline_grant WHERE amr = 'hwk pin');
        DELETE FROM refresh_token WHERE grant_id IN (SELECT id FROM offline_grant WHERE amr = 'hwk pin');
        DELETE FROM offline_grant WHERE amr = 'hwk pin';
        ALTER TABLE offline_grant ADD COLUMN easy_access_kid TEXT;
        CREATE TRIGGER easy_access_grants AFTER DELETE ON latchkey_locker_easy_access_key BEGIN
            DELETE FROM offline_grant WHERE enrolment_id = OLD.enrolment_id AND easy_access_kid = OLD.kid;
        END;
        """

    private static let postgreSQLLockerSchema = """
        ALTER TABLE offline_grant ADD COLUMN enrolment_id TEXT
            REFERENCES latchkey_locker_enrolment (id) ON DELETE CASCADE;
        CREATE INDEX offline_grant_enrolment ON offline_grant (enrolment_id);
        CREATE FUNCTION user_enrolments() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            DELETE FROM latchkey_locker_enrolment WHERE user_id = OLD.id;
            RETURN NULL;
        END $$;
        CREATE TRIGGER user_enrolments AFTER DELETE ON "user" FOR EACH ROW EXECUTE FUNCTION user_enrolments();
        """

    /// A new database has no grants from before.
    private static let postgreSQLEasyAccessSchema = """
        ALTER TABLE offline_grant ADD COLUMN easy_access_kid TEXT;
        CREATE FUNCTION easy_access_grants() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            DELETE FROM offline_grant WHERE enrolment_id = OLD.enrolment_id AND easy_access_kid = OLD.kid;
            RETURN NULL;
        END $$;
        CREATE TRIGGER easy_access_grants AFTER DELETE ON latchkey_locker_easy_access_key
            FOR EACH ROW EXECUTE FUNCTION easy_access_grants();
        """

    /// So that deleting expired rows does not read all rows.
    private static let expirySchema = """
        CREATE INDEX offline_grant_expiry ON offline_grant (expires_at);
        CREATE INDEX offline_grant_idle_expiry ON offline_grant (idle_expires_at);
        CREATE INDEX authorization_code_expiry ON authorization_code (expires_at);
        CREATE INDEX authorization_code_user ON authorization_code (user_id);
        CREATE INDEX web_session_expiry ON web_session (expires_at);
        CREATE INDEX web_session_user ON web_session (user_id);
        """

    /// The keys that sign ID tokens. ``SigningKeySchedule`` derives their states.
    private static let signingKeySchema = """
        CREATE TABLE signing_key (
            kid TEXT PRIMARY KEY NOT NULL,
            algorithm TEXT NOT NULL,
            private_key BLOB NOT NULL,
            created_at REAL NOT NULL,
            signs_from REAL NOT NULL
        ) STRICT;
        """

    /// The counts that several servers share. They are lost if PostgreSQL crashes; then the windows
    /// start again.
    private static let rateLimitSchema = """
        CREATE UNLOGGED TABLE rate_limit (
            name TEXT PRIMARY KEY NOT NULL,
            started_at DOUBLE PRECISION NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL,
            count BIGINT NOT NULL
        );
        CREATE INDEX rate_limit_expiry ON rate_limit (expires_at);
        CREATE TABLE pending_activation (
            number BIGINT GENERATED ALWAYS AS IDENTITY,
            id TEXT PRIMARY KEY NOT NULL,
            user_id TEXT NOT NULL,
            state TEXT NOT NULL,
            expires_at DOUBLE PRECISION NOT NULL
        );
        CREATE INDEX pending_activation_user ON pending_activation (user_id, expires_at);
        CREATE INDEX pending_activation_expiry ON pending_activation (expires_at);
        """
}
