import FoundationEssentials
import GRDB

/// The server's own lasting secrets, made when they are first needed.
struct SecretStore: Sendable {
    let database: any DatabaseWriter

    /// The secret of this name. Of two processes that make it at once, both get the one that was stored first.
    func value(_ name: String, orMake make: @escaping @Sendable () throws -> Data) async throws -> Data {
        if let value = try await read(name) { return value }
        let made = try make()
        return try await database.write { database in
            try database.execute(
                sql: "INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", arguments: [name, made])
            return try Data.fetchOne(database, sql: "SELECT value FROM secret WHERE name = ?", arguments: [name])
                ?? made
        }
    }

    private func read(_ name: String) async throws -> Data? {
        try await database.read {
            try Data.fetchOne($0, sql: "SELECT value FROM secret WHERE name = ?", arguments: [name])
        }
    }
}
