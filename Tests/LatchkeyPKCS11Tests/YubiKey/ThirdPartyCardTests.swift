import Latchkey
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
        let scene = try await YubiKeyScene(kind, touchPolicy: .always)
        // GENERAL AUTHENTICATE; OpenSC sends two for a signature that fails.
        func uses() -> Int { scene.yubiKey.card.statistics.instructions["87", default: 0] }
        try await scene.expectSignature()
        scene.yubiKey.card.touch = .wait
        let before = uses()
        let (error, duration) = await scene.timedFailure()
        #expect(error?.code == .cancelled, "\(String(describing: error))")
        #expect(uses() - before <= (kind == .ykcs11 ? 1 : 2))
        #expect(duration < .seconds(4))
        scene.yubiKey.card.touch = .auto
        try await scene.expectSignature()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `wrong PINs are reported with the attempts left`(through kind: YubiKeyModule.Kind) async throws {
        try await YubiKeyScene(kind).expectCountedAttempts()
    }
}
