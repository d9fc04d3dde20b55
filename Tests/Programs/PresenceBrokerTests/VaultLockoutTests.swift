import FoundationEssentials
import Glibc
import Latchkey
import LatchkeyPresence
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import LatchkeyVault
import Testing

/// "Call 'reauthenticateOwner' when unlock fails due to FaceID/TouchID being locked": with the real
/// broker, fprintd and swtpm.
@Suite(
    .requires(program: "dbus-daemon"), .requires(program: "fprintd-enroll"),
    .requires(program: "gdbus"), .softwareTPM,
    .virtualFinger)
struct VaultLockoutTests {
    private static let pin = ScriptedPresence.Step.pin("2468")
    private static let wrong = ScriptedPresence.Step.pin("1111")

    @Test func `after locked-out fingers the owner's PIN is the proof`() async throws {
        try await withVault(.userPresence, preferring: .finger, Self.pin, Self.pin) {
            scene, locked, presence in
            try await lockFingers(locked, scene)
            #expect(try await locked.reauthenticateOwner())
            #expect(presence.requests.map(\.purpose) == [.new, .current])
            #expect(try await locked.unlock().credentials == "a token")
            #expect(presence.requests.count == 2 && presence.notices.isEmpty)
            let again = try await locked.unlock().lock()
            async let shown: Void = scene.reader.present(.finger("mine"))
            #expect(
                try await again.unlock().credentials == "a token",
                "the PIN has also ended the lockout of the fingers")
            try await shown
        }
    }

    @Test func `after a locked-out PIN the owner's finger is the proof, and resets the count`()
        async throws
    {
        let steps = [Self.pin] + Array(repeating: Self.wrong, count: 10) + [Self.pin]
        try await withVault(.userPresence, preferring: .pin, steps) { scene, locked, presence in
            try await lockPIN(locked)
            #expect(try await reauthenticate(locked, scene))
            #expect(try await locked.unlock().credentials == "a token")
            #expect(presence.requests.count == 11)
            #expect(
                try await locked.unlock().lock().unlock().credentials == "a token",
                "the PIN works again")
        }
    }

    @Test func `a finger unlocks the PIN of a vault that only the PIN opens`() async throws {
        let steps = [Self.pin] + Array(repeating: Self.wrong, count: 10) + [Self.pin]
        try await withVault(.pin, preferring: .pin, steps) { scene, locked, presence in
            try await lockPIN(locked)
            #expect(try await reauthenticate(locked, scene))
            #expect(presence.requests.count == 12 && presence.requests.last?.attemptsLeft == 10)
            #expect(scene.progress.prompts.last?.contains("“unlock your PIN”") == true)
            #expect(try await locked.unlock().credentials == "a token")
            #expect(presence.requests.count == 12)
        }
    }

    @Test
    func `the owner's PIN ends the lockout of the fingers for a vault that only a finger opens`()
        async throws
    {
        try await withVault(.biometryAny, preferring: .any, Self.pin) { scene, locked, presence in
            _ = try await scene.key(.pin, ScriptedPresence([Self.pin], broker: scene.client))
            async let shown: Void = scene.reader.present(.finger("mine"))
            _ = try await locked.unlock().lock()
            try await shown
            try await lockFingers(locked, scene)
            #expect(try await reauthenticate(locked, scene))
            #expect(presence.requests.map(\.context.reason) == ["unlock your fingerprint"])
            #expect(try await locked.unlock().credentials == "a token")
        }
    }

    @Test
    func `a wrong PIN does not end the lockout of the fingers, nor does one that is set after it`()
        async throws
    {
        func pin(_ step: ScriptedPresence.Step, _ scene: BrokerScene) -> ScriptedPresence {
            ScriptedPresence([step], broker: scene.client, preferring: .pin)
        }
        try await BrokerScene.with { scene in
            let finger = try await scene.key(.biometryAny)
            try await lockFingers(finger, scene)
            let key = try await scene.key(.pin, pin(Self.pin, scene))
            try await scene.sign(key, pin(Self.pin, scene))
            #expect(
                try await scene.refusal(finger)?.code == .lockedOut,
                "an attacker could set the first PIN")
        }
        try await BrokerScene.with(enrolled: []) { scene in
            let finger = try await scene.key(.biometryAny)
            let key = try await scene.key(.pin, pin(Self.pin, scene))
            try await lockFingers(finger, scene)
            try await scene.sign(key, pin(Self.pin, scene))
            #expect(
                try await scene.refusal(finger)?.code == .lockedOut,
                "no finger has matched since the PIN was set")
        }
        try await BrokerScene.with(enrolled: []) { scene in
            let finger = try await scene.key(.biometryAny)
            let key = try await scene.key(.pin, pin(Self.pin, scene))
            try await scene.sign(finger, showing: .finger("mine"))
            try await lockFingers(finger, scene)
            #expect(try await scene.refusal(key, pin(Self.wrong, scene))?.code == .wrongProof)
            #expect(try await scene.refusal(finger)?.code == .lockedOut)
            await scene.broker.stop(SIGKILL)
            try await scene.broker.start()
            #expect(try await scene.refusal(finger)?.code == .lockedOut, "after a restart")
            try await scene.sign(key, pin(Self.pin, scene))
            try await scene.sign(finger, showing: .finger("mine"))
        }
    }

    @Test func `a vault that only a finger opens stays locked, and the user is told until when`()
        async throws
    {
        try await withVault(.biometryAny, preferring: .any) { scene, locked, presence in
            let until = try await lockFingers(locked, scene)
            let isOwner = try await locked.reauthenticateOwner()
            #expect(!isOwner)
            guard
                case .lockedOut("too many fingers did not match", _, let end?) = presence.notices
                    .first
            else {
                Issue.record("no notice: \(presence.notices)")
                return
            }
            #expect(abs(end.timeIntervalSince(until)) < 5)
            let next = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
            #expect(next?.code == .lockedOut && next?.lockedOutUntil != nil)
        }
    }

    // MARK: Helpers

    private func withVault(
        _ policy: AccessPolicy, preferring preference: PresencePreference,
        _ steps: ScriptedPresence.Step...,
        body: (BrokerScene, Vault<String>, ScriptedPresence) async throws -> Void
    ) async throws {
        try await withVault(policy, preferring: preference, steps, body: body)
    }

    private func withVault(
        _ policy: AccessPolicy, preferring preference: PresencePreference,
        _ steps: [ScriptedPresence.Step],
        body: (BrokerScene, Vault<String>, ScriptedPresence) async throws -> Void
    ) async throws {
        try await BrokerScene.with { scene in
            let directory = try TemporaryDirectory()
            let store = try await RecordStore(directory: directory.path)
            let presence = ScriptedPresence(
                steps, broker: PresenceBroker(scene.client), preferring: preference)
            let space = try VaultSpace(
                records: RecordContainer(
                    store: store, keystore: TPMKeystore(tcti: scene.tpm.tcti, anchors: store)),
                presence: presence, policy: policy)
            try await space.open()
            let vault = VaultFactory<String>.retrieveVault(key: "login", in: space)
            async let shown: Void = preference == .pin ? () : scene.reader.present(.finger("mine"))
            let stored = try await vault.storeToBiometrics(credentials: "a token")
            try await shown
            try await body(scene, stored.lock(), presence)
        }
    }

    private func lockFingers(_ finger: HardwareKey, _ scene: BrokerScene) async throws {
        for _ in 0..<5 {
            #expect(
                try await scene.refusal(finger, showing: .finger("another's"))?.code == .wrongProof)
        }
        #expect(try await scene.refusal(finger)?.code == .lockedOut)
    }

    /// - Returns: The end of the lockout.
    @discardableResult
    private func lockFingers(_ locked: Vault<String>, _ scene: BrokerScene) async throws -> Date {
        for _ in 0..<5 {
            async let shown: Void = scene.reader.present(.finger("another's"))
            let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
            #expect(error?.code == .wrongProof)
            try await shown
        }
        let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
        #expect(error?.code == .lockedOut)
        return try #require(error?.lockedOutUntil)
    }

    private func lockPIN(_ locked: Vault<String>) async throws {
        for _ in 0..<10 {
            let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
            #expect(error?.code == .wrongProof)
        }
        let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
        #expect(error?.code == .lockedOut)
    }

    private func reauthenticate(_ locked: Vault<String>, _ scene: BrokerScene) async throws -> Bool
    {
        async let shown: Void = scene.reader.present(.finger("mine"))
        let isOwner = try await locked.reauthenticateOwner()
        try await shown
        return isOwner
    }
}
