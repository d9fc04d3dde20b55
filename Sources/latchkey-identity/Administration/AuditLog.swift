import FoundationEssentials
import LatchkeyRelyingParty

/// The log of changes to users, devices, approval keys and sessions.
///
/// Triggers write it in the transaction of the change, so no server, command or SQL client can change these tables without an
/// entry, or write an entry without the change. Other triggers refuse to change and to delete entries. (The owner of the
/// database can remove triggers.)
struct AuditLog: Sendable {
    let database: any SQLDatabase

    /// An entry, as `audit` prints it.
    struct Entry: Encodable, Sendable {
        /// Increases with each entry.
        let number: Int
        /// In ISO 8601.
        let time: String
        /// The table and the change, for example `device.added`.
        let event: String
        let userID: String?
        /// The ID of the device, enrolment or session, or the Name of the approval key.
        let subject: String
    }

    /// The entries with a larger number than `number`, oldest first.
    func entries(after number: Int, limit: Int) async throws -> [Entry] {
        try await database.read { database in
            try database.rows(
                "SELECT * FROM audit_event WHERE number > \(number) ORDER BY number LIMIT \(max(0, limit))"
            ).map { row in
                Entry(
                    number: try row.integer("number"), time: Administration.text(try row.real("time")),
                    event: try row.text("event"), userID: try row.optionalText("user_id"),
                    subject: try row.text("subject"))
            }
        }
    }
}

extension AuditLog {
    static let migration = SQLMigration("audit 1", sqlite: sqliteSchema, postgreSQL: postgreSQLSchema)

    /// A change that is logged.
    private struct Change {
        let name: StaticString
        let event: StaticString
        let table: StaticString
        /// `INSERT`, `DELETE`, or `UPDATE OF` a column.
        let on: StaticString
        /// SQL of the columns, with the row as `NEW` or `OLD`.
        let user: StaticString
        let subject: StaticString
        var condition: StaticString = "1 = 1"
    }

    private static let changes = [
        Change(
            name: "user_added", event: "user.added", table: "\"user\"", on: "INSERT", user: "NEW.id", subject: "NEW.id"),
        Change(
            name: "user_deleted", event: "user.deleted", table: "\"user\"", on: "DELETE", user: "OLD.id",
            subject: "OLD.id"),
        Change(
            name: "user_disabled", event: "user.disabled", table: "\"user\"", on: "UPDATE OF is_disabled",
            user: "NEW.id",
            subject: "NEW.id", condition: "NEW.is_disabled > OLD.is_disabled"),
        Change(
            name: "user_enabled", event: "user.enabled", table: "\"user\"", on: "UPDATE OF is_disabled", user: "NEW.id",
            subject: "NEW.id", condition: "NEW.is_disabled < OLD.is_disabled"),
        Change(
            name: "user_password", event: "user.passwordChanged", table: "\"user\"", on: "UPDATE OF password",
            user: "NEW.id",
            subject: "NEW.id", condition: "NEW.password <> OLD.password"),
        Change(
            name: "device_added", event: "device.added", table: "latchkey_device", on: "INSERT", user: "NEW.user_id",
            subject: "NEW.id"),
        Change(
            name: "device_removed", event: "device.removed", table: "latchkey_device", on: "DELETE",
            user: "OLD.user_id",
            subject: "OLD.id"),
        Change(
            name: "enrolment_added", event: "enrolment.added", table: "latchkey_locker_enrolment", on: "INSERT",
            user: "NEW.user_id", subject: "NEW.id"),
        Change(
            name: "enrolment_removed", event: "enrolment.removed", table: "latchkey_locker_enrolment", on: "DELETE",
            user: "OLD.user_id", subject: "OLD.id"),
        Change(
            name: "session_began", event: "session.began", table: "offline_grant", on: "INSERT", user: "NEW.user_id",
            subject: "NEW.id"),
        Change(
            name: "session_ended", event: "session.ended", table: "offline_grant", on: "DELETE", user: "OLD.user_id",
            subject: "OLD.id"),
    ]

    private static let sqliteSchema =
        """
        CREATE TABLE audit_event (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            time REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0),
            event TEXT NOT NULL,
            user_id TEXT,
            subject TEXT NOT NULL
        ) STRICT;
        CREATE TRIGGER audit_event_kept BEFORE DELETE ON audit_event BEGIN
            SELECT RAISE(ABORT, 'the audit log is append-only');
        END;
        CREATE TRIGGER audit_event_unchanged BEFORE UPDATE ON audit_event BEGIN
            SELECT RAISE(ABORT, 'the audit log is append-only');
        END;
        """
        + changes.map {
            """

            CREATE TRIGGER audit_\($0.name) AFTER \($0.on) ON \($0.table) WHEN \($0.condition) BEGIN
                INSERT INTO audit_event (event, user_id, subject) VALUES ('\($0.event)', \($0.user), \($0.subject));
            END;
            """
        }.joined()
            + """

            CREATE TRIGGER audit_approval_key_added AFTER INSERT ON latchkey_approval_key BEGIN
                INSERT INTO audit_event (event, subject) VALUES ('approvalKey.added', lower(hex(NEW.name)));
            END;
            CREATE TRIGGER audit_approval_key_removed AFTER DELETE ON latchkey_approval_key BEGIN
                INSERT INTO audit_event (event, subject) VALUES ('approvalKey.removed', lower(hex(OLD.name)));
            END;
            """

    private static let postgreSQLSchema =
        """
        CREATE TABLE audit_event (
            number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            time DOUBLE PRECISION NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
            event TEXT NOT NULL,
            user_id TEXT,
            subject TEXT NOT NULL
        );
        CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'the audit log is append-only';
        END $$;
        CREATE TRIGGER audit_event_kept BEFORE DELETE OR UPDATE ON audit_event FOR EACH ROW
            EXECUTE FUNCTION audit_refuse();
        CREATE TRIGGER audit_event_not_emptied BEFORE TRUNCATE ON audit_event FOR EACH STATEMENT
            EXECUTE FUNCTION audit_refuse();
        """
        + changes.map {
            """

            CREATE FUNCTION audit_\($0.name)() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO audit_event (event, user_id, subject) VALUES ('\($0.event)', \($0.user), \($0.subject));
                RETURN NULL;
            END $$;
            CREATE TRIGGER audit_\($0.name) AFTER \($0.on) ON \($0.table) FOR EACH ROW WHEN (\($0.condition))
                EXECUTE FUNCTION audit_\($0.name)();
            """
        }.joined()
            + """

            CREATE FUNCTION audit_approval_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF TG_OP = 'INSERT' THEN
                    INSERT INTO audit_event (event, subject) VALUES ('approvalKey.added', encode(NEW.name, 'hex'));
                ELSE
                    INSERT INTO audit_event (event, subject) VALUES ('approvalKey.removed', encode(OLD.name, 'hex'));
                END IF;
                RETURN NULL;
            END $$;
            CREATE TRIGGER audit_approval_key AFTER INSERT OR DELETE ON latchkey_approval_key FOR EACH ROW
                EXECUTE FUNCTION audit_approval_key();
            """
}
