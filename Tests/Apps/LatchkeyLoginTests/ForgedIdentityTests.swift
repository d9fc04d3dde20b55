import GRDB
import Latchkey
import LatchkeyLogin
import LatchkeySimulators
import LatchkeyTesting
import RawDatabase
import Testing

@Suite(.softwareTPM) struct ForgedIdentityTests {
    /// An attacker who can write the store's file could otherwise choose which of the user's
    /// devices the server forgets.
    @Test func `a row that names another device's key does not remove it from the server`()
        async throws
    {
        try await Bench.with { bench in
            let mine = try await bench.start()
            try await mine.authorize()
            let key = try await mine.enableBiometric()
            let other = try await bench.start(name: "other")
            try await other.authorize()
            let otherKey = try await other.enableBiometric()
            let database = try DatabaseQueue.raw(
                at: "\(bench.directory.path)/default/latchkey.sqlite")
            try await database.write { database in
                try database.execute(
                    sql: "UPDATE record SET attributes = replace(attributes, ?, ?) WHERE id = ?",
                    arguments: [key.id.rawValue, otherKey.id.rawValue, "login.identity.\(key.id)"])
                #expect(database.changesCount == 1)
            }
            await #expect(throws: keystore(.damaged)) { try await mine.disableBiometric() }
            #expect(
                await bench.identity.identities.keys.sorted()
                    == [key.id.rawValue, otherKey.id.rawValue].sorted())
            #expect(try await mine.isBiometricEnabled())
            try await mine.disableBiometric(force: true)
            #expect(try await !mine.isBiometricEnabled())
            #expect(await bench.identity.identities.count == 2)
        }
    }
}
