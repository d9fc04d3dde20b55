import Foundation
import GRDB
import Latchkey
import LatchkeyCredentials
import LatchkeyTesting
import Testing

/// What protects tokens against somebody who may write the store's file.
@Suite(.softwareTPM)
struct ProtectionTests {
    @Test func `each gated token has a key of its own, which comes and goes with it`() async throws {
        let bench = try Bench()
        let presence = ScriptedPresence(pins: "2468", "2468", "2468")
        let store = try await bench.start(presence: presence)
        let first = try await store.store(bench.provider.signIn(), security: .pin)
        let second = try await store.store(bench.provider.signIn(), security: .pin)
        // One PIN, chosen once.
        #expect(presence.requests.map(\.purpose) == [.new, .current])
        let names = try classes(bench)
        #expect(names.count == 3 && names.contains("device"))
        try first.remove()
        #expect(try classes(bench).count == 2)
        #expect(try await second.token.id == second.id)
        try second.remove()
        #expect(try classes(bench) == ["device"])
    }

    @Test func `a key that was prepared for a token is not used`() async throws {
        let (bench, theirs) = (try Bench(), try Bench())
        let token = try bench.provider.signIn()
        // The attacker stores a token of that id in a store of their own, on the same TPM, and copies all its keys.
        let stolen = try await theirs.start().store(token, security: .pin)
        #expect(stolen.id == token.id)
        let store = try await bench.start()
        try await DatabaseQueue(path: bench.databasePath).writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    ATTACH ? AS theirs;
                    INSERT INTO classKey SELECT * FROM theirs.classKey WHERE name <> 'device';
                    INSERT INTO classKey
                        SELECT container, 'credentials.pin(0,any)', sealed, generation FROM theirs.classKey
                        WHERE name <> 'device';
                    """, arguments: [theirs.databasePath])
        }
        let before = Set(try classes(bench))
        let stored = try await store.store(token, security: .pin)
        let used = try await DatabaseQueue(path: bench.databasePath).read {
            try String.fetchOne($0, sql: "SELECT class FROM record WHERE kind = 'credential.token'")
        }
        #expect(try !before.contains(#require(used)))
        #expect(try await stored.token == token)
    }

    private func classes(_ bench: Bench) throws -> [String] {
        try DatabaseQueue(path: bench.databasePath).read {
            try String.fetchAll($0, sql: "SELECT name FROM classKey ORDER BY name")
        }
    }
}
