import FoundationEssentials
import GRDB
import LatchkeySimulators
import LatchkeyTesting
import RawDatabase
import Testing

/// `latchkey passkey delete` in a script.
@Suite(.softwareTPM, .requires(program: "swtpm"), .timeLimit(.minutes(15)))
struct PasskeyDeletionTests {
    @Test(arguments: [true, false])
    func `without a terminal, only --yes deletes a passkey`(isDamaged: Bool) async throws {
        let machine = try Machine(tcti: SoftwareTPM.current.tcti)
        let id = try #require(try await machine.storePasskeys("id.example").first)
        let database = try DatabaseQueue.raw(at: machine.databasePath)
        if isDamaged {
            try await database.write {
                try $0.execute(
                    sql: "UPDATE record SET payload = x'00' WHERE id = ?",
                    arguments: ["passkey.\(id)"])
            }
        }
        func count() async throws -> Int? {
            try await database.read {
                try Int.fetchOne(
                    $0, sql: "SELECT count(*) FROM record WHERE id = ?",
                    arguments: ["passkey.\(id)"])
            }
        }
        let refused = try await machine.run("passkey", "delete", id, "--json")
        #expect(refused.status == 2, "\(refused)")
        #expect(
            try refused.json()["error"]?["message"]?.string?.contains("no terminal") == true,
            "\(refused)")
        #expect(try await count() == 1)
        let deleted = try await machine.run("passkey", "delete", id, "--yes")
        #expect(deleted.status == 0, "\(deleted)")
        #expect(try await count() == 0)
    }
}
