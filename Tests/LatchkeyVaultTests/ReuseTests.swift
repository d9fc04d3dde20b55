import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Vaults under a policy whose proof serves for some time: what ends that, and what never takes such a proof.
@Suite(.softwareToken)
struct ReuseTests {
    private let policy = AccessPolicy(.pin, reuseSeconds: 300)

    /// A vault that is open, by a proof that still serves.
    private func opened(
        _ rest: ScriptedPresence.Step...
    ) async throws -> (vault: Vault<Login>, presence: ScriptedPresence, space: VaultSpace) {
        let scene = try Scene(on: .token)
        let presence = ScriptedPresence([.pin(scene.pin)] + rest)
        let space = try await scene.start(presence, policy: try #require(policy))
        let stored = try await LatchkeyVaultTests.vault(in: space).storeToBiometrics(credentials: .jane)
        #expect(presence.asked.count == 1)
        return (stored, presence, space)
    }

    @Test func `whoever unlocks after a lock is asked`() async throws {
        let (opened, presence, space) = try await opened(.decline, .pin(try SoftwareToken.current.userPIN))
        let locked = try opened.lock()
        await #expect(throws: cancelled) { try await locked.unlock() }
        #expect(presence.asked.count == 2)
        #expect(try await locked.unlock().credentials == .jane)
        #expect(presence.asked.count == 3)
        #expect(name(of: vault(in: space)) == .biometrics)
    }

    @Test func `the owner is asked, though a proof would still serve`() async throws {
        let (opened, presence, _) = try await opened(.decline, .pin(try SoftwareToken.current.userPIN))
        #expect(try await opened.reauthenticateOwner() == false)
        #expect(presence.asked.count == 2)
        #expect(try await opened.reauthenticateOwner())
        #expect(presence.asked.count == 3)
    }

    @Test func `locking all records ends it too`() async throws {
        let (_, presence, space) = try await opened(.decline)
        await space.records.lock()
        try await space.open()
        await #expect(throws: cancelled) { try await vault(in: space).unlock() }
        #expect(presence.asked.count == 2)
    }

    /// The records of a vault are read by code that asks nobody; it must not depend on who was there a moment ago.
    @Test func `what asks nobody opens nothing by a proof that still serves`() async throws {
        let (_, presence, space) = try await opened()
        let id = RecordID(rawValue: "vault.login")
        let record = try #require(try space.records.metadataNow(id))
        space.records.lock(prefix: record.protection.name)
        await #expect(throws: unavailable) {
            try await space.records.open(
                record.protection, for: PromptContext(reason: "look"), authorizedBy: NobodyPresent())
        }
        #expect(presence.asked.count == 1)
    }
}
