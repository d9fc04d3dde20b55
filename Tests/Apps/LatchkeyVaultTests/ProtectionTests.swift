import Foundation
import GRDB
import Latchkey
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import Testing

/// Changes of protection: new keys, destruction of old ones, and concurrent programs.
@Suite(.softwareTPM)
struct ProtectionTests {
    @Test func `each protection has its own key, and the old one is destroyed`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        let opened = try await vault(in: space).storeToBiometrics(credentials: .jane)
        let first = try classes(scene)
        #expect(first.count == 2)
        let plain = try await opened.downgrade()
        #expect(try classes(scene) == ["device"])
        _ = try await plain.upgrade()
        let second = try classes(scene)
        #expect(second.count == 2 && second != first)
        _ = try await vault(in: space).reset()
        #expect(try classes(scene) == ["device"])
    }

    @Test func `an old row restored under a new protection does not open`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        let plain = try await vault(in: space).storeToKeychain(credentials: .jane)
        let queue = try DatabaseQueue.raw(at: scene.databasePath)
        try await queue.write {
            try $0.execute(sql: "CREATE TABLE old AS SELECT * FROM record WHERE kind = 'vault'")
        }
        let opened = try await plain.upgrade().downgrade().upgrade()
        try await queue.write {
            try $0.execute(
                sql: """
                    UPDATE record SET payload = (SELECT payload FROM old), generation = (SELECT generation FROM old)
                    WHERE kind = 'vault'
                    """)
        }
        #expect(throws: damaged) { try opened.credentials }
    }

    @Test func `the vault keeps the policy under which it was stored`() async throws {
        let scene = try Scene()
        _ = try await vault(in: scene.start()).storeToBiometrics(credentials: .jane)
        let elsewhere = try await scene.start(policy: .biometryAny)
        #expect(try await vault(in: elsewhere).unlock().credentials == .jane)
    }

    @Test func `a policy without user verification is refused for a vault`() async throws {
        let scene = try Scene()
        let records = try await scene.closed().records
        #expect(throws: invalidInput) {
            try VaultSpace(records: records, presence: NobodyPresent(), policy: .none)
        }
    }

    @Test func `of two programs with the same vault one gets a conflict`() async throws {
        let scene = try Scene()
        let (mine, theirs) = try await (scene.start(), scene.start())
        let (empty, alsoEmpty) = (vault(in: mine), vault(in: theirs))
        let plain = try await empty.storeToKeychain(credentials: .jane)
        await #expect(throws: conflict) { try await alsoEmpty.storeToKeychain(credentials: .june) }
        await #expect(throws: conflict) {
            try await alsoEmpty.storeToBiometrics(credentials: .june)
        }
        let seen = vault(in: theirs)
        let opened = try await plain.upgrade()
        await #expect(throws: conflict) { try await seen.update(credentials: .june) }
        #expect(throws: KeystoreError.self) { try seen.credentials }
        let lockedElsewhere = vault(in: theirs)
        #expect(name(of: lockedElsewhere) == .locked)
        let theirOpened = try await lockedElsewhere.unlock()
        _ = try await opened.downgrade()
        #expect(throws: conflict) { try theirOpened.credentials }
        await #expect(throws: conflict) { try await lockedElsewhere.unlock() }
        #expect(try vault(in: theirs).credentials == .jane)
        let held = vault(in: mine)
        _ = try await vault(in: theirs).reset()
        #expect(throws: conflict) { try held.credentials }
    }

    @Test(arguments: [false, true])
    func `a kept vault can be updated repeatedly, and another vault's update is a conflict`(
        gated: Bool
    ) async throws {
        let scene = try Scene()
        let space = try await scene.start()
        let empty = vault(in: space)
        let first =
            gated
            ? try await empty.storeToBiometrics(credentials: .jane)
            : try await empty.storeToKeychain(credentials: .jane)
        for login in [Login.june, .jane, .june] {
            let updated = try await first.update(credentials: login)
            #expect(try first.credentials == login && updated.credentials == login)
        }
        _ = try await vault(in: space).update(credentials: .jane)
        await #expect(throws: conflict) { try await first.update(credentials: .june) }
        #expect(try vault(in: space).credentials == .jane)
    }

    @Test func `the hardware is used no more than necessary`() async throws {
        let scene = try Scene()
        var counter: CountingKeystore?
        let space = try await scene.start { keystore in
            let counting = CountingKeystore(keystore)
            counter = counting
            return counting
        }
        let keystore = try #require(counter)
        var seen = keystore.calls.count
        func calls() -> [String] {
            defer { seen = keystore.calls.count }
            return keystore.calls[seen...].filter {
                ["sealRevocably", "seal", "unseal"].contains($0)
            }
        }
        let plain = try await vault(in: space).storeToKeychain(credentials: .jane)
        _ = try vault(in: space).credentials
        let updated = try await plain.update(credentials: .june)
        #expect(calls() == [])
        let opened = try await updated.upgrade()
        #expect(calls() == ["sealRevocably", "unseal"])
        let locked = try await opened.update(credentials: .jane).lock()
        #expect(calls() == [])
        let unlocked = try await locked.unlock()
        #expect(calls() == ["unseal"])
        _ = try await unlocked.downgrade().reset()
        #expect(calls() == [])
    }

    private func classes(_ scene: Scene) throws -> [String] {
        try DatabaseQueue.raw(at: scene.databasePath).read {
            try String.fetchAll($0, sql: "SELECT name FROM classKey ORDER BY name")
        }
    }
}
