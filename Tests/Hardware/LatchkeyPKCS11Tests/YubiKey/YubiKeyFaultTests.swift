import Foundation
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Faults of a card: each has its error, and the card works after the fault.
@Suite(.virtualYubiKey)
struct YubiKeyFaultTests {
    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `wrong PINs lock the card, and there are no more prompts`(through kind: YubiKeyModule.Kind)
        async throws
    {
        let scene = try await YubiKeyScene(kind)
        #expect(await scene.failure(pin: "111111")?.code == .wrongProof)
        let second = await scene.failure(pin: "111111")
        #expect(second?.code == .wrongProof)
        #expect(second?.attemptsLeft == 1)
        #expect(await scene.failure(pin: "111111")?.code == .lockedOut)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        #expect(await scene.failure(presence)?.code == .lockedOut)
        #expect(presence.requests.isEmpty)
        try await SystemProgram("yubico-piv-tool").require([
            "-a", "unblock-pin", "-P", "12345678", "-N", "123456",
        ])
        // ykcs11 2.2.0 reports the PIN as locked until it is restarted.
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `an absent card is unavailable`(through kind: YubiKeyModule.Kind) async throws {
        let scene = try await YubiKeyScene(kind)
        try await scene.yubiKey.eject()
        #expect(await scene.failure()?.code == .unavailable)
        try await scene.yubiKey.insert()
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases, [0, 20, 200, 700])
    func `a card that was just removed is unavailable`(
        through kind: YubiKeyModule.Kind, milliseconds: Int
    ) async throws {
        let scene = try await YubiKeyScene(kind)
        scene.yubiKey.card.eject()
        // The test is about the time since the card was removed.
        try await Task.sleep(for: .milliseconds(milliseconds))
        let error = await scene.failure()
        #expect(
            error?.code == .unavailable || error?.code == .transient, "\(String(describing: error))"
        )
        try await scene.yubiKey.eject()
        try await scene.yubiKey.insert()
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `a card that is removed while it signs is unavailable`(through kind: YubiKeyModule.Kind)
        async throws
    {
        let scene = try await YubiKeyScene(kind, touchPolicy: .always)
        scene.yubiKey.card.touch = .wait
        async let failure = scene.failure()
        try await scene.yubiKey.waitUntilTouchIsWanted()
        scene.yubiKey.card.eject()
        let error = await failure
        #expect(
            error?.code == .unavailable || error?.code == .transient, "\(String(describing: error))"
        )
        scene.yubiKey.card.touch = .auto
        try await scene.yubiKey.eject()
        try await scene.yubiKey.insert()
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `a card that was replaced by another one is the wrong device`(
        through kind: YubiKeyModule.Kind
    ) async throws {
        let scene = try await YubiKeyScene(kind, namesCard: false)
        try await scene.yubiKey.eject()
        let other = try await scene.yubiKey.insert(CardProfile(serialNumber: 777), slot: 0)
        try await YubiKeyModule.provision(scene.yubiKey, other)
        #expect(await scene.failure()?.code == .wrongDevice)
        other.eject()
        try await scene.yubiKey.eject()
        try await scene.yubiKey.insert()
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `a pcscd that was restarted is found again`(through kind: YubiKeyModule.Kind) async throws
    {
        let scene = try await YubiKeyScene(kind)
        try await scene.expectSignature()
        await scene.yubiKey.reader.stop()
        #expect(await scene.failure()?.code == .unavailable)
        try await scene.yubiKey.reader.start()
        scene.yubiKey.card.eject()
        try await scene.yubiKey.insert()
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `two cards with the same name are refused`(through kind: YubiKeyModule.Kind) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let twin = try await yubiKey.insert(yubiKey.card.profile, slot: 1)
        try await YubiKeyModule.provision(yubiKey, twin, slotOfReader: 1)
        let module = try YubiKeyModule(kind)
        let keystore = try module.keystore(yubiKey.card, key: .authentication)
        let error = await #expect(throws: KeystoreError.self) { try await keystore.capabilities() }
        #expect(error?.code == .conflict)
        twin.eject()
        #expect(await yubiKey.reader.waitUntil(slot: 1, hasCard: false))
        _ = try await keystore.capabilities()
    }
}
