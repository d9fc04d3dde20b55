import Latchkey
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Restoring a store does not restore revoked access.
@Suite(.softwareTPM)
struct RollbackTests {
    enum Change: CaseIterable {
        case pinChange, downgrade, reset
    }

    @Test(arguments: Change.allCases)
    func `an older copy opens no vault with the old PIN`(_ change: Change) async throws {
        let scene = try Scene()
        let space = try await scene.start(ScriptedPresence(pins: scene.pin, scene.pin, "13579"))
        let opened = try await vault(in: space).storeToBiometrics(credentials: .jane)
        #expect(try await space.isStoredRevocably(key: "login") == true)
        let copied = try scene.withCopiedStore()
        let control = try await copied.start(ScriptedPresence(pins: scene.pin))
        #expect(try await vault(in: control).unlock().credentials == .jane)
        switch change {
        case .pinChange:
            try await space.records.changePIN(
                for: PromptContext(reason: "change the PIN"),
                authorizedBy: ScriptedPresence(pins: scene.pin, "13579"))
        case .downgrade: _ = try await opened.downgrade()
        case .reset: _ = try await opened.reset()
        }
        let thief = try await copied.start(ScriptedPresence(pins: scene.pin))
        let error = await #expect(throws: KeystoreError.self) {
            try await vault(in: thief).unlock()
        }
        #expect(error?.code == (change == .pinChange ? .wrongProof : .invalidated))
        #expect(error?.underlying?.rawCode == (change == .pinChange ? 0x98e : 0x18b))
    }
}
