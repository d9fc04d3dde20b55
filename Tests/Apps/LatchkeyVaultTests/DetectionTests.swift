import Foundation
import GRDB
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import LatchkeyVault
import RawDatabase
import Testing

/// Retrieving vaults and detecting damage.
@Suite(.softwareTPM)
struct DetectionTests {
    @Test func `retrieving does not prompt, uses no hardware and writes nothing`() async throws {
        let scene = try Scene()
        for gated in [false, true] {
            let space = try await scene.start()
            let empty = vault(in: space)
            _ =
                gated
                ? try await empty.storeToBiometrics(credentials: .jane)
                : try await empty.storeToKeychain(credentials: .jane)
            let offline = try await scene.closed(NobodyPresent(), tcti: "swtpm:path=/nonexistent")
            let before = try scene.bytes()
            #expect(name(of: vault(in: offline)) == .locked)
            #expect(failure(of: vault(in: offline)) == (gated ? nil : wrongState))
            #expect(try offline.isStoredWithBiometrics(key: "login") == gated)
            #expect(
                name(of: VaultFactory<Login>.retrieveVault(key: "other", in: offline)) == .empty)
            #expect(try scene.bytes() == before)
            _ = try await vault(in: space).reset()
        }
    }

    /// Changes of the row that need no hardware.
    @Test(arguments: [
        "attributes = '{'", "kind = 'note'", "policy = '{}'", "class = 'device'",
        "payload = zeroblob(40)",
        "payload = NULL", "generation = 99", "mac = zeroblob(32)", "class = 'vault.x'",
    ])
    func `damage is never taken for emptiness, and stays as it is`(edit: String) async throws {
        let scene = try Scene()
        _ = try await vault(in: scene.start()).storeToBiometrics(credentials: .jane)
        try await change(scene, "UPDATE record SET \(edit) WHERE kind = 'vault'")
        let before = try rows(scene)
        let space = try await scene.start()
        let found = vault(in: space)
        #expect(name(of: found) == .locked)
        await #expect(throws: damaged) { try await found.unlock() }
        #expect(try rows(scene) == before)
        #expect(name(of: try await found.reset()) == .emptyWithBiometrics)
        #expect(try rows(scene).isEmpty)
    }

    @Test func `a vault that cannot be read is locked, with the reason`() async throws {
        guard
            case .locked(let nameless) = VaultFactory<Login>.retrieveVault(
                key: "", in: try await Scene().start())
        else {
            Issue.record("not locked")
            return
        }
        #expect(nameless.failure == invalidInput)
        await #expect(throws: invalidInput) { try await nameless.unlock() }
        await #expect(throws: invalidInput) { try await nameless.reset() }
    }

    @Test(arguments: [false, true])
    func `credentials of another type are a locked vault with a failure, and are kept`(gated: Bool)
        async throws
    {
        let scene = try Scene()
        let space = try await scene.start()
        let empty = VaultFactory<Int>.retrieveVault(key: "login", in: space)
        _ =
            gated
            ? try await empty.storeToBiometrics(credentials: 7)
            : try await empty.storeToKeychain(credentials: 7)
        #expect(failure(of: vault(in: space)) == invalidInput)
        await #expect(throws: invalidInput) { try await vault(in: space).unlock() }
        #expect(try VaultFactory<Int>.retrieveVault(key: "login", in: space).credentials == 7)
        _ = try await vault(in: space).reset()
        #expect(name(of: vault(in: space)) == .emptyWithBiometrics)
    }

    @Test func `a vault is reset on another machine and before its space is open`() async throws {
        let scene = try Scene()
        _ = try await vault(in: scene.start()).storeToBiometrics(credentials: .jane)
        try await SoftwareTPM.withRunning { other in
            let space = try await scene.closed(tcti: other.tcti)
            #expect(name(of: try await vault(in: space).reset()) == .empty)
        }
        _ = try await vault(in: scene.start()).storeToKeychain(credentials: .jane)
        #expect(name(of: try await vault(in: scene.closed()).reset()) == .empty)
    }

    @Test func `vaults, containers and names are separate`() async throws {
        let scene = try Scene()
        let space = try await scene.start()
        _ = try await vault(in: space).storeToBiometrics(credentials: .jane)
        let other = VaultFactory<Login>.retrieveVault(key: "login2", in: space)
        #expect(name(of: other) == .emptyWithBiometrics)
        let opened = try await other.storeToBiometrics(credentials: .june)
        _ = try opened.lock()
        #expect(try vault(in: space).credentials == .jane)
        _ = try await vault(in: space).reset()
        #expect(
            try await VaultFactory<Login>.retrieveVault(key: "login2", in: space).unlock()
                .credentials == .june)
    }

    private func failure(of vault: Vault<Login>) -> KeystoreError? {
        if case .locked(let locked) = vault { locked.failure } else { nil }
    }

    private func change(_ scene: Scene, _ sql: String) async throws {
        try await DatabaseQueue.raw(at: scene.databasePath).write { try $0.execute(sql: sql) }
    }

    private func rows(_ scene: Scene) throws -> [Row] {
        try DatabaseQueue.raw(at: scene.databasePath).read {
            try Row.fetchAll($0, sql: "SELECT * FROM record WHERE id LIKE 'vault.%'")
        }
    }
}
