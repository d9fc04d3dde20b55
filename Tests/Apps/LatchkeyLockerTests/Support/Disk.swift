import GRDB
import RawDatabase

/// Direct access to the store's database.
struct Disk: Sendable {
    let path: String

    /// Lets the disk refuse every write after the first `count` changes.
    func fill(after count: Int) async throws {
        try await DatabaseQueue.raw(at: path).write { database in
            try database.execute(
                sql: """
                    CREATE TABLE room (changes INTEGER NOT NULL);
                    INSERT INTO room VALUES (\(count));
                    CREATE TRIGGER full BEFORE UPDATE ON container WHEN (SELECT changes FROM room) <= 0
                    BEGIN SELECT RAISE(ABORT, 'the disk is full'); END;
                    CREATE TRIGGER filling AFTER UPDATE ON container BEGIN UPDATE room SET changes = changes - 1; END;
                    """)
        }
    }

    /// Removes that limit.
    func clear() async throws {
        try await DatabaseQueue.raw(at: path).write { database in
            try database.execute(sql: "DROP TRIGGER full; DROP TRIGGER filling; DROP TABLE room;")
        }
    }

    /// The names of the locker's rows, sorted.
    func rows() async throws -> [String] {
        try await DatabaseQueue.raw(at: path).read { database in
            try String.fetchAll(database, sql: "SELECT id FROM record ORDER BY id")
        }
    }

    /// The name of the stored enrolment's easy-access key.
    func easyAccessKey() async throws -> String? {
        try await DatabaseQueue.raw(at: path).read { database in
            try String.fetchOne(
                database,
                sql:
                    "SELECT json_extract(attributes, '$.easyAccess') FROM record WHERE id = 'locker.enrolment'"
            )
        }
    }

    /// Stores a class's key once more, under another name.
    func copyClass(_ name: String, to copy: String) async throws {
        try await DatabaseQueue.raw(at: path).write { database in
            guard
                var row = try Row.fetchOne(
                    database, sql: "SELECT * FROM classKey WHERE name = ?", arguments: [name])
            else { return }
            row = Row(
                Dictionary(
                    uniqueKeysWithValues: row.map { ($0, $0 == "name" ? copy.databaseValue : $1) }))
            let columns = row.columnNames.joined(separator: ", ")
            let marks = row.columnNames.map { _ in "?" }.joined(separator: ", ")
            try database.execute(
                sql: "INSERT INTO classKey (\(columns)) VALUES (\(marks))",
                arguments: StatementArguments(row.databaseValues))
        }
    }

    /// Changes the class of the `offline` row.
    func moveOfflineKey(to name: String) async throws {
        try await DatabaseQueue.raw(at: path).write { database in
            try database.execute(
                sql: "UPDATE record SET class = ? WHERE id = 'locker.offline'", arguments: [name])
        }
    }

    /// The names of the classes that have keys.
    func classes() async throws -> [String] {
        try await DatabaseQueue.raw(at: path).read { database in
            try String.fetchAll(database, sql: "SELECT name FROM classKey ORDER BY name")
        }
    }
}
