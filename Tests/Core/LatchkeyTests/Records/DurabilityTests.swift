import GRDB
import LatchkeySimulators
import Testing

@testable import Latchkey

struct DurabilityTests {
    @Test func `committed records are on the disk, and deleted ones are overwritten`() throws {
        let directory = try TemporaryDirectory()
        let (database, _) = try Schema.openDatabase(at: directory.path(of: "store.sqlite"))
        let settings = try database.read { database in
            try ["journal_mode", "synchronous", "secure_delete"].map {
                try String.fetchOne(database, sql: "PRAGMA \($0)")
            }
        }
        // FULL is 2.
        #expect(settings == ["wal", "2", "1"])
    }
}
