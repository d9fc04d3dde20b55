import Foundation
import GRDB
import HTTPTypes
import Latchkey
import LatchkeyCredentials
import LatchkeyTestSupport
import LatchkeyTesting
import RawDatabase
import Testing

/// The protection of tokens against an attacker who can write the store's file.
@Suite(.softwareTPM)
struct ProtectionTests {
    @Test func `each token with a policy has its own key, which is made and deleted with it`()
        async throws
    {
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

    @Test func `a prompt has the reason of its call`() async throws {
        let bench = try Bench()
        let presence = ScriptedPresence(Array(repeating: .pin(Bench.pin), count: 16))
        let store = try await bench.start(presence: presence)
        let credential = try await store.store(
            bench.provider.signIn(), security: .pin, reason: "keep the session")
        _ = try await credential.token(reason: "show the balance")
        _ = try await credential.token
        try await credential.refresh(reason: "renew the session")
        bench.clock.advance(by: 3500)
        try await credential.refreshIfNeeded(reason: "continue")
        _ = try await credential.userInfo(reason: "show the name")
        _ = try await credential.introspect(reason: "check the session")
        var request = HTTPRequest(
            method: .get, scheme: "https", authority: "api.test", path: "/")
        try await credential.authorize(&request, reason: "pay the bill")
        try await credential.replace(with: bench.provider.signIn(), reason: "log in again")
        try await credential.revoke(reason: "log out")
        #expect(
            presence.asked.map(\.reason) == [
                "keep the session", "show the balance", "use the token", "renew the session",
                "continue", "show the name", "check the session", "pay the bill", "log in again",
                "log out",
            ])
    }

    @Test func `a key that was prepared for a token is not used`() async throws {
        let (bench, theirs) = (try Bench(), try Bench())
        let token = try bench.provider.signIn()
        // The attacker stores a token with that id in another store on the same TPM, and copies all
        // its keys.
        let stolen = try await theirs.start().store(token, security: .pin)
        #expect(stolen.id == token.id)
        let store = try await bench.start()
        try await DatabaseQueue.raw(at: bench.databasePath).writeWithoutTransaction { database in
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
        let used = try await DatabaseQueue.raw(at: bench.databasePath).read {
            try String.fetchOne($0, sql: "SELECT class FROM record WHERE kind = 'credential.token'")
        }
        #expect(try !before.contains(#require(used)))
        #expect(try await stored.token == token)
    }

    @Test func `a token that another program has downgraded is damaged, and is not refreshed`()
        async throws
    {
        let bench = try Bench()
        let token = try bench.provider.signIn()
        let credential = try await bench.start().store(token, security: .pin)
        // Another program of the same user stores a row under the device key, which requires no
        // PIN.
        let (records, _) = try await bench.records()
        let forged = Record(
            id: RecordID(rawValue: "credential.token.\(token.id)"), kind: "credential.token")
        let payload = SecretBytes(try JSONEncoder().encode(token))
        let prompt = PromptContext(reason: "attack the token")
        try await records.apply([.put(forged, payload: payload, ifGeneration: nil)], for: prompt)
        await #expect(throws: keystore(.damaged)) { try await credential.token }
        await #expect(throws: keystore(.damaged)) { try await credential.refresh() }
        // And says so in the metadata too.
        let metadataID = RecordID(rawValue: "credential.metadata.\(token.id)")
        let metadata = try #require(try await records.read(metadataID, for: prompt)).record
        var attributes = metadata.attributes
        attributes["policy"] = "none"
        let changed = Record(id: metadata.id, kind: metadata.kind, attributes: attributes)
        try await records.apply([.put(changed, payload: nil, ifGeneration: nil)], for: prompt)
        await #expect(throws: keystore(.damaged)) { try await credential.token }
        await #expect(throws: keystore(.damaged)) { try await credential.refresh() }
    }

    private func classes(_ bench: Bench) throws -> [String] {
        try DatabaseQueue.raw(at: bench.databasePath).read {
            try String.fetchAll($0, sql: "SELECT name FROM classKey ORDER BY name")
        }
    }
}
