import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import LatchkeyVault
import Testing
import VirtualSmartCard

/// "Call 'reauthenticateOwner' when unlock fails": the PUK of a YubiKey lifts the lockout of its
/// PIN.
@Suite(.virtualYubiKey)
struct UnblockingTests {
    private static let puk = ScriptedPresence.Step.pin(CardProfile.defaultPUK)

    @Test func `the PUK and a new PIN are a proof`() async throws {
        try await withLockedOutVault(Self.puk, .pin("7777777"), .pin("7777777")) {
            locked, presence in
            #expect(try await locked.reauthenticateOwner())
            #expect(presence.requests.suffix(2).map(\.purpose) == [.unblocking, .new])
            #expect(Self.lockouts(presence).isEmpty)
            let count = presence.requests.count
            let unlocked = try await locked.unlock()
            #expect(try unlocked.credentials == "a token")
            #expect(presence.requests.count == count, "the new PIN was the proof")
            _ = try await unlocked.lock().unlock()
            #expect(presence.requests.count == count + 1, "the new PIN opens the vault")
        }
    }

    @Test func `a declined prompt and a wrong PUK leave the lockout`() async throws {
        try await withLockedOutVault(.decline, .pin("87654321"), .pin("7777777")) {
            locked, presence in
            var isOwner = try await locked.reauthenticateOwner()
            #expect(!isOwner && Self.lockouts(presence).isEmpty)
            isOwner = try await locked.reauthenticateOwner()
            #expect(!isOwner)
            guard
                case .lockedOut(let reason, let recovery, until: nil) = Self.lockouts(presence)
                    .first
            else {
                Issue.record("no notice: \(presence.notices)")
                return
            }
            #expect(
                reason
                    == "the token's PIN is locked after too many wrong PINs, and the PUK is wrong")
            #expect(recovery.hasPrefix("2 attempts are left. Try again with the PUK."))
            let next = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
            #expect(next?.code == .lockedOut)
            #expect(next?.recoveryAction.actions == [.unblockPIN])
        }
    }

    /// The notices besides those about a touch, which appear whenever the token needs more than
    /// half a second.
    private static func lockouts(_ presence: ScriptedPresence) -> [PresenceNotice] {
        presence.notices.filter { if case .touch = $0 { false } else { true } }
    }

    private func withLockedOutVault(
        _ steps: ScriptedPresence.Step...,
        body: (Vault<String>, ScriptedPresence) async throws -> Void
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.ykcs11)
        let directory = try TemporaryDirectory()
        let store = try await RecordStore(directory: directory.path)
        let presence = ScriptedPresence(
            [.pin(CardProfile.defaultPIN)] + Array(repeating: .pin("111111"), count: 3) + steps,
            officerPIN: VirtualYubiKey.factoryManagementKey)
        let space = try VaultSpace(
            records: RecordContainer(
                store: store, keystore: module.keystore(yubiKey.card, anchors: store)),
            presence: presence, policy: .pin)
        try await space.open()
        let vault = VaultFactory<String>.retrieveVault(key: "login", in: space)
        let locked = try await vault.storeToBiometrics(credentials: "a token").lock()
        for left in [2, 1, 0] {
            let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
            #expect(error?.code == (left == 0 ? .lockedOut : .wrongProof))
        }
        let error = await #expect(throws: KeystoreError.self) { try await locked.unlock() }
        #expect(error?.code == .lockedOut)
        try await body(locked, presence)
    }
}
