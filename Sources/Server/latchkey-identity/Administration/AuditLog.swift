import FoundationEssentials
import LatchkeyRelyingParty

/// The log of changes to users, devices, approval keys, signing keys and sessions.
///
/// Triggers write it in the transaction of the change, so no server, command or SQL client can
/// change these tables without an entry. Other triggers refuse to change and to delete entries. The
/// owner of the database can remove triggers and add entries.
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
        /// The ID of the device, enrolment, session or signing key, or the Name of the approval
        /// key.
        let subject: String
    }

    /// The entries with a larger number than `number`, oldest first.
    func entries(after number: Int, limit: Int) async throws -> [Entry] {
        try await database.read { database in
            try database.rows(
                "SELECT * FROM audit_event WHERE number > \(number) ORDER BY number LIMIT \(max(0, limit))"
            ).map { row in
                Entry(
                    number: try row.integer("number"),
                    time: Administration.text(try row.real("time")),
                    event: try row.text("event"), userID: try row.optionalText("user_id"),
                    subject: try row.text("subject"))
            }
        }
    }
}

extension AuditLog {
    static let migration = SQLMigration(
        "audit 1", sqlite: sqliteTable + triggers(changes, .sqlite),
        postgreSQL: postgreSQLTable + triggers(changes, .postgreSQL))

    static let signingKeyMigration = SQLMigration(
        "audit 2", sqlite: triggers(signingKeyChanges, .sqlite),
        postgreSQL: triggers(signingKeyChanges, .postgreSQL))

    /// A change that is logged.
    private struct Change {
        let event: String
        let table: String
        /// `INSERT`, `DELETE`, `UPDATE`, or `UPDATE OF` a column.
        let on: String
        /// The column with the user's ID; nil if there is none.
        var user: String? = "user_id"
        /// The column with the subject.
        var subject = "id"
        /// Whether the subject is bytes, which are logged as hexadecimal digits.
        var isBinary = false
        var condition = "1 = 1"

        var trigger: String { "audit_\(event.replacing(".", with: "_"))" }

        /// The statement that writes the entry.
        func insertion(_ dialect: SQLDialect) -> String {
            let row = on == "DELETE" ? "OLD" : "NEW"
            let value = "\(row).\(subject)"
            let text =
                switch dialect {
                case _ where !isBinary: value
                case .sqlite: "lower(hex(\(value)))"
                case .postgreSQL: "encode(\(value), 'hex')"
                }
            return "INSERT INTO audit_event (event, user_id, subject) "
                + "VALUES ('\(event)', \(user.map { "\(row).\($0)" } ?? "NULL"), \(text))"
        }
    }

    private static let changes = [
        Change(event: "user.added", table: #""user""#, on: "INSERT", user: "id"),
        Change(event: "user.deleted", table: #""user""#, on: "DELETE", user: "id"),
        Change(
            event: "user.disabled", table: #""user""#, on: "UPDATE OF is_disabled", user: "id",
            condition: "NEW.is_disabled > OLD.is_disabled"),
        Change(
            event: "user.enabled", table: #""user""#, on: "UPDATE OF is_disabled", user: "id",
            condition: "NEW.is_disabled < OLD.is_disabled"),
        Change(
            event: "user.passwordChanged", table: #""user""#, on: "UPDATE OF password", user: "id",
            condition: "NEW.password <> OLD.password"),
        Change(event: "device.added", table: "latchkey_device", on: "INSERT"),
        Change(event: "device.removed", table: "latchkey_device", on: "DELETE"),
        Change(event: "enrolment.added", table: "latchkey_locker_enrolment", on: "INSERT"),
        Change(event: "enrolment.removed", table: "latchkey_locker_enrolment", on: "DELETE"),
        Change(event: "session.began", table: "offline_grant", on: "INSERT"),
        Change(event: "session.ended", table: "offline_grant", on: "DELETE"),
        Change(
            event: "approvalKey.added", table: "latchkey_approval_key", on: "INSERT", user: nil,
            subject: "name",
            isBinary: true),
        Change(
            event: "approvalKey.removed", table: "latchkey_approval_key", on: "DELETE", user: nil,
            subject: "name",
            isBinary: true),
    ]

    private static let signingKeyChanges = [
        ("added", "INSERT"), ("changed", "UPDATE"), ("removed", "DELETE"),
    ].map { event, on in
        Change(
            event: "signingKey.\(event)", table: "signing_key", on: on, user: nil, subject: "kid")
    }

    private static func triggers(_ changes: [Change], _ dialect: SQLDialect) -> String {
        changes.map { change in
            switch dialect {
            case .sqlite:
                """

                CREATE TRIGGER \(change.trigger) AFTER \(change.on) ON \(change.table) WHEN \(change.condition) BEGIN
                    \(change.insertion(dialect));
                END;
                """
            case .postgreSQL:
                """

                CREATE FUNCTION \(change.trigger)() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    \(change.insertion(dialect));
                    RETURN NULL;
                END $$;
                CREATE TRIGGER \(change.trigger) AFTER \(change.on) ON \(change.table) FOR EACH ROW
                    WHEN (\(change.condition)) EXECUTE FUNCTION \(change.trigger)();
                """
            }
        }.joined()
    }

    private static let sqliteTable = """
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

    private static let postgreSQLTable = """
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
}
