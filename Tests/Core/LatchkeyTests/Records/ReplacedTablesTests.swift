import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import RawDatabase
import Testing

/// Stores whose tables change while they are open.
@Suite(.softwareTPM)
struct ReplacedTablesTests {
    private let prompt = PromptContext(reason: "test the store")

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
