import Foundation
import GRDB
import LatchkeySimulators
import Testing

@testable import Latchkey

struct DurabilityTests {
    @Test func `committed records are on the disk, and deleted ones are overwritten`() throws {
        let directory = try TemporaryDirectory()
        let (database, _, _) = try Schema.openDatabase(at: directory.path(of: "store.sqlite"))
        let settings = try database.read { database in
            try ["journal_mode", "synchronous", "secure_delete"].map {
                try String.fetchOne(database, sql: "PRAGMA \($0)")
            }
        }
        // FULL is 2.
        #expect(settings == ["wal", "2", "1"])
    }

    @Test(arguments: ["contents", "another file", "a log", "no file"])
    func `a change of a database that is read without locks is noticed`(change: String) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path(of: "store.sqlite")
        try Data([1]).write(to: URL(filePath: path))
        let file = OpenedFile(immutable: path)
        try file.check()
        switch change {
        case "contents": try Data([1, 2]).write(to: URL(filePath: path))
        case "another file":
            let other = directory.path(of: "other")
            try Data([1]).write(to: URL(filePath: other))
            #expect(rename(other, path) == 0)
        case "a log": try Data().write(to: URL(filePath: path + "-wal"))
        default: try FileManager.default.removeItem(atPath: path)
        }
        let error = #expect(throws: CommonError.self) { try file.check() }
        #expect(error?.code == .unavailable)
    }
}
