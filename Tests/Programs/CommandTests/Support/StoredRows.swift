import GRDB
import RawDatabase
import Testing

/// The stored key of a row.
func storedKey(_ machine: Machine, _ id: String) throws -> String {
    let database = try DatabaseQueue.raw(at: machine.databasePath)
    let text = try database.read {
        try String.fetchOne($0, sql: "SELECT hardwareKey FROM record WHERE id = ?", arguments: [id])
    }
    return try #require(text)
}

/// Writes another key into a row, as an attacker with write access to the file can.
func store(_ machine: Machine, _ id: String, _ key: String) throws {
    let database = try DatabaseQueue.raw(at: machine.databasePath)
    try database.write { database in
        try database.execute(
            sql: "UPDATE record SET hardwareKey = ? WHERE id = ?", arguments: [key, id])
        #expect(database.changesCount == 1)
    }
}

/// Adds a copy of a row with another name and kind, as an attacker with write access to the file can.
func copyRow(_ machine: Machine, to id: String, kind: String) throws {
    let database = try DatabaseQueue.raw(at: machine.databasePath)
    try database.write { database in
        try database.execute(
            sql: """
                INSERT INTO record SELECT container, ?, ?, class, policy, attributes, hardwareKey, payload,
                generation, createdAt, updatedAt, mac FROM record LIMIT 1
                """, arguments: [id, kind])
        #expect(database.changesCount == 1)
    }
}

/// Writes an attribute's value into a row, as an attacker with write access to the file can.
func store(_ machine: Machine, _ id: String, attributes: String) throws {
    let database = try DatabaseQueue.raw(at: machine.databasePath)
    try database.write { database in
        try database.execute(
            sql: "UPDATE record SET attributes = ? WHERE id = ?", arguments: [attributes, id])
        #expect(database.changesCount == 1)
    }
}
