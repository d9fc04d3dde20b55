import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Vaults under a policy with reuse: the calls that end it, and those that accept no earlier proof.
@Suite(.softwareToken)
struct ReuseTests {
    private let policy = AccessPolicy(.pin, reuseSeconds: 300)

    /// A vault that is open, with a proof that is still valid. The scene deletes its store when it
    /// is released.
    private func opened(
        in scene: Scene, _ rest: ScriptedPresence.Step...
    ) async throws -> (vault: Vault<Login>, presence: ScriptedPresence, space: VaultSpace) {
        let presence = ScriptedPresence([.pin(scene.pin)] + rest)
        let policy: AccessPolicy = try #require(policy)
        let space = try await scene.start(presence, policy: policy)
        let stored = try await LatchkeyVaultTests.vault(in: space).storeToBiometrics(
            credentials: .jane)
        #expect(presence.asked.count == 1)
        return (stored, presence, space)
    }

    @Test func `unlocking after a lock prompts`() async throws {
        let scene = try Scene(on: .token)
        let (opened, presence, space) = try await opened(
            in: scene, .decline, .pin(scene.pin))
        let locked = try opened.lock()
        await #expect(throws: cancelled) { try await locked.unlock() }
        #expect(presence.asked.count == 2)
        #expect(try await locked.unlock().credentials == .jane)
        #expect(presence.asked.count == 3)
        #expect(name(of: vault(in: space)) == .biometrics)
    }

    @Test func `reauthentication prompts despite a valid earlier proof`() async throws {
        let scene = try Scene(on: .token)
        let (opened, presence, _) = try await opened(
            in: scene, .decline, .pin(scene.pin))
        #expect(try await opened.reauthenticateOwner() == false)
        #expect(presence.asked.count == 2)
        #expect(try await opened.reauthenticateOwner())
        #expect(presence.asked.count == 3)
    }

    @Test func `locking all records ends the reuse too`() async throws {
        let scene = try Scene(on: .token)
        let (_, presence, space) = try await opened(in: scene, .decline)
        await space.records.lock()
        try await space.open()
        await #expect(throws: cancelled) { try await vault(in: space).unlock() }
        #expect(presence.asked.count == 2)
    }

    /// Code that must not prompt reads a vault's records. Its results must not depend on earlier
    /// prompts.
    @Test func `calls without a prompt do not use an earlier proof`() async throws {
        let scene = try Scene(on: .token)
        let (_, presence, space) = try await opened(in: scene)
        let id = RecordID(rawValue: "vault.login")
        let record = try #require(try space.records.metadataNow(id))
        space.records.lock(prefix: record.protection.name)
        await #expect(throws: unavailable) {
            try await space.records.open(
                record.protection, for: PromptContext(reason: "look"), authorizedBy: NobodyPresent()
            )
        }
        #expect(presence.asked.count == 1)
    }
}
