import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// Stores of older and newer versions.
@Suite(.softwareTPM)
struct MigrationTests {
    private let prompt = PromptContext(reason: "test the store")

    @Test func `a store of version 1 opens with all its records`() async throws {
        let directory = try TemporaryDirectory()
        let before = try await container(directory)
        let record = Record(id: "a", kind: "note", attributes: ["colour": "red"])
        try await before.apply(
            [.put(record, payload: SecretBytes([7]), ifGeneration: 0)], for: prompt)
        try await before.apply(
            [.put(Record(id: "b", kind: "note"), payload: nil, ifGeneration: 0)], for: prompt)
        // Features that version 1 lacked.
        try await queue(directory).write {
            try $0.execute(
                sql: """
                    DROP TABLE recordAttribute;
                    DROP TABLE revocation;
                    DELETE FROM grdb_migrations WHERE identifier <> '1';
                    UPDATE record SET attributes = '{' WHERE id = 'b';
                    """)
        }
        let after = try await container(directory)
        #expect(try await after.read("a", for: prompt)?.payload == SecretBytes([7]))
        let red = RecordQuery.attribute("colour", is: "red")
        #expect(try await after.find("note", where: red).records.map(\.id) == ["a"])
        await #expect(throws: damaged) { try await after.metadata("b") }
    }

    @Test func `a store of a newer version is refused and not changed`() async throws {
        let directory = try TemporaryDirectory()
        try await container(directory).open(.device, for: prompt, authorizedBy: NobodyPresent())
        try await queue(directory).write {
            try $0.execute(
                sql:
                    "INSERT INTO grdb_migrations (identifier) VALUES ('99'); CREATE TABLE future (x)"
            )
        }
        try await queue(directory).writeWithoutTransaction { _ = try $0.checkpoint(.truncate) }
        let path = directory.path(of: "default/latchkey.sqlite")
        let before = try Data(contentsOf: URL(filePath: path))
        let error = await #expect(throws: KeystoreError.self) { try await container(directory) }
        #expect(error?.code == .unsupported)
        #expect(error?.recovery == "Install that version of Latchkey.")
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
    }

    /// SQLite refuses values of other types in strict tables, but an attacker who can write the
    /// file can replace the tables.
    @Test func `values of the wrong type in replaced tables are damage`() async throws {
        let directory = try TemporaryDirectory()
        let before = try await container(directory)
        try await before.apply(
            [.put(Record(id: "a", kind: "note"), payload: nil, ifGeneration: 0)], for: prompt)
        // The store is open when the tables change; opening it afterwards would fail.
        let after = try await container(directory)
        try await queue(directory).write {
            try $0.execute(
                sql: """
                    CREATE TABLE rows AS SELECT * FROM record;
                    DROP TABLE record;
                    ALTER TABLE rows RENAME TO record;
                    UPDATE record SET generation = NULL;
                    DROP TABLE classKey;
                    CREATE TABLE classKey (container, name, sealed, generation);
                    INSERT INTO classKey VALUES ('default', 'device', NULL, NULL);
                    """)
        }
        await #expect(throws: damaged) { try await container(directory) }
        await #expect(throws: damaged) { try await after.metadata("a") }
        await #expect(throws: damaged) { try await after.list("note") }
        #expect(throws: damaged) { try after.scanNow("note") { _ in true } }
        await #expect(throws: damaged) {
            try await after.open(.device, for: prompt, authorizedBy: NobodyPresent())
        }
    }

    private func queue(_ directory: TemporaryDirectory) throws -> DatabaseQueue {
        try DatabaseQueue.raw(at: directory.path(of: "default/latchkey.sqlite"))
    }

    private func container(_ directory: TemporaryDirectory) async throws -> RecordContainer {
        let store = try await RecordStore(directory: directory.path)
        return try RecordContainer(
            store: store, keystore: TPMKeystore(tcti: SoftwareTPM.current.tcti, anchors: store))
    }
}
