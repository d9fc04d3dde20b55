import Foundation
import GRDB
import Latchkey
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import Testing

/// A same-user process that can open the device class replaces a value with biometrics by one
/// without.
@Suite(.softwareTPM)
struct DowngradeTests {
    private let prompt = PromptContext(reason: "attack the vault")

    @Test func `a vault that another program downgraded is damaged, not read or written`()
        async throws
    {
        let scene = try Scene()
        let space = try await scene.start()
        let plain = try await vault(in: space).storeToKeychain(credentials: .jane)
        let queue = try DatabaseQueue.raw(at: scene.databasePath)
        try await queue.write {
            try $0.execute(
                sql: "CREATE TEMP TABLE old AS SELECT * FROM record WHERE kind = 'vault'")
        }
        let opened = try await plain.upgrade()
        try await forge(scene)
        #expect(throws: KeystoreError.self) { try opened.credentials }
        for program in [space, try await scene.start()] {
            guard case .locked(let locked) = vault(in: program) else {
                Issue.record("\(vault(in: program)) is not locked")
                continue
            }
            #expect(locked.failure?.code == .damaged)
            await #expect(throws: damaged) { try await locked.unlock() }
        }
        // An attacker would have preferred to leave the row from before the upgrade.
        try await queue.write {
            try $0.execute(
                sql:
                    "DELETE FROM record WHERE kind = 'vault'; INSERT INTO record SELECT * FROM old; DROP TABLE old"
            )
        }
        guard case .keychainUpgradable(let held) = plain else {
            Issue.record("\(plain)")
            return
        }
        await #expect(throws: damaged) { try await held.read() }
        await #expect(throws: damaged) { try await held.update(credentials: .june) }
        #expect(held.credentials == .jane)
        #expect(name(of: try await vault(in: space).reset()) == .emptyWithBiometrics)
        _ = try await vault(in: space).storeToKeychain(credentials: .june)
        #expect(try vault(in: space).credentials == .june)
    }

    @Test func `a record key from another program under an empty vault is removed on storing`()
        async throws
    {
        let scene = try Scene()
        let space = try await scene.start()
        _ = try await vault(in: space).storeToBiometrics(credentials: .jane)
        try await DatabaseQueue.raw(at: scene.databasePath).write {
            try $0.execute(sql: "DELETE FROM record WHERE id = 'vault.login'")
        }
        #expect(name(of: vault(in: space)) == .emptyWithBiometrics)
        _ = try await vault(in: space).storeToKeychain(credentials: .june)
        #expect(try vault(in: space).credentials == .june)
    }

    /// A same-user process can store a record under the device class.
    private func forge(_ scene: Scene) async throws {
        let records = try await scene.start().records
        let forged = Record(id: "vault.login", kind: "vault", protection: .device)
        let payload = SecretBytes(#"{"value":{"username":"mallory","accessToken":"x"}}"#.utf8)
        try await records.apply([.put(forged, payload: payload, ifGeneration: nil)], for: prompt)
    }
}
