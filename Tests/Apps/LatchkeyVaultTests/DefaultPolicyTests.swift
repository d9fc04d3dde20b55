import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import Testing

/// Vaults of an app that names no policy.
@Suite(.softwareTPM, .softwareToken)
struct DefaultPolicyTests {
    @Test(arguments: SimulatedDevice.allCases)
    func `without a reader, vaults are stored with the PIN`(_ device: SimulatedDevice) async throws
    {
        let scene = try Scene(on: device)
        let presence = ScriptedPresence(Array(repeating: .pin(scene.pin), count: 8))
        let space = try await scene.start(presence, policy: nil)
        #expect(space.isUserVerificationAvailable)
        let empty = vault(in: space)
        #expect(name(of: empty) == .emptyWithBiometrics)
        let locked = try await empty.storeToBiometrics(credentials: .jane).lock()
        let before = presence.requests.count
        #expect(try await locked.unlock().credentials == .jane)
        #expect(presence.requests.count == before + 1)
        let record = try #require(try await space.records.list("vault").first)
        #expect(record.protection.policy == .pin)
    }

    @Test func `a stored vault keeps its policy, and one that is protected anew gets the default`()
        async throws
    {
        let scene = try Scene(on: .token)
        let reusing = try #require(AccessPolicy(.pin, reuseSeconds: 60))
        _ = try await vault(in: scene.start(policy: reusing)).storeToBiometrics(credentials: .jane)
        let space = try await scene.start(policy: nil)
        let opened = try await vault(in: space).unlock()
        #expect(try await space.records.list("vault").first?.protection.policy == reusing)
        _ = try await opened.downgrade().upgrade()
        #expect(try await space.records.list("vault").first?.protection.policy == .pin)
    }
}
