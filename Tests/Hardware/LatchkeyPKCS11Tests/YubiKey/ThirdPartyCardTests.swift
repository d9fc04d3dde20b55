import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// A PIV card of another manufacturer than Yubico, with the answers of the CanoKey firmware.
@Suite(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7), touchTimeout: .milliseconds(600)))
struct ThirdPartyCardTests {
    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `a touch that never comes is requested once, and is a cancellation`(
        through kind: YubiKeyModule.Kind
    ) async throws {
        let scene = try await YubiKeyScene(
            kind, touchPolicy: .always, options: YubiKeyModule.reportingTouch)
        // GENERAL AUTHENTICATE; OpenSC sends two for a signature that fails.
        func uses() -> Int { scene.yubiKey.card.statistics.instructions["87", default: 0] }
        try await scene.expectSignature()
        scene.yubiKey.card.touch = .wait
        let before = uses()
        let error = await scene.failure()
        #expect(error?.code == .cancelled, "\(String(describing: error))")
        #expect(uses() - before <= (kind == .ykcs11 ? 1 : 2))
        scene.yubiKey.card.touch = .auto
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `wrong PINs are reported with the attempts left`(through kind: YubiKeyModule.Kind)
        async throws
    {
        try await YubiKeyScene(kind).expectCountedAttempts()
    }

    @Test
    func `a certificate with another name changes the label, and the stored key stays usable`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.opensc)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let prompt = PromptContext(reason: "sign", container: "tests")
        let digest = MessageDigest(sha256: Array("a message".utf8))
        let key = try await module.keystore(nil, key: .keyManagement).createKey(
            KeyRequest(policy: .pin, prompt: prompt),
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        // The label looks like that of a card with two PINs.
        try await yubiKey.provision(.authentication, name: "New holder (User PIN)")
        let other = try YubiKeyModule(.opensc)
        let keystore = try other.keystore(nil)
        #expect(try await keystore.capabilities().device.contains("New holder (User PIN)"))
        let signature = try await keystore.sign(
            digest, with: key, for: prompt,
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        #expect(key.publicKey.isValid(signature, for: digest))
        withExtendedLifetime(module) {}
    }
}
