import Foundation
import GRDB
import Latchkey
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import Testing

/// Somebody with the user's rights, who has the device class without anybody present, puts what is without biometrics in
/// the place of what is with.
@Suite(.softwareTPM)
struct DowngradeTests {
    private let prompt = PromptContext(reason: "attack the vault")

    @Test func `a vault that something else has downgraded is damaged, and neither read nor written`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        let plain = try await vault(in: space).storeToKeychain(credentials: .jane)
        let queue = try DatabaseQueue.raw(at: scene.databasePath)
        try await queue.write {
            try $0.execute(sql: "CREATE TEMP TABLE old AS SELECT * FROM record WHERE kind = 'vault'")
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
        // The row of before the upgrade is what the forger would have liked to leave.
        try await queue.write {
            try $0.execute(
                sql: "DELETE FROM record WHERE kind = 'vault'; INSERT INTO record SELECT * FROM old; DROP TABLE old")
        }
        guard case .keychainUpgradable(let held) = plain else {
            Issue.record("\(plain)")
            return
        }
        await #expect(throws: damaged) { try await held.read() }
        await #expect(throws: damaged) { try await held.update(credentials: .june) }
        #expect(held.credentials == nil)
        #expect(name(of: try await vault(in: space).reset()) == .emptyWithBiometrics)
        _ = try await vault(in: space).storeToKeychain(credentials: .june)
        #expect(try vault(in: space).credentials == .june)
    }

    @Test func `a key that somebody else has put under an empty vault goes when something is stored`() async throws {
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

    /// What a program of the same user can do: it stores a record under the device class.
    private func forge(_ scene: Scene) async throws {
        let records = try await scene.start().records
        let forged = Record(id: "vault.login", kind: "vault", protection: .device)
        let payload = SecretBytes(#"{"value":{"username":"mallory","accessToken":"x"}}"#.utf8)
        try await records.apply([.put(forged, payload: payload, ifGeneration: nil)], for: prompt)
    }
}
