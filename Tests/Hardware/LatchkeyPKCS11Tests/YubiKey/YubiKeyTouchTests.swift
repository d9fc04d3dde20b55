import Latchkey
import LatchkeyPKCS11
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// A card whose time limit for a touch is short.
@Suite(.virtualYubiKey(touchTimeout: .milliseconds(600)))
struct YubiKeyTouchTests {
    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `a touch that never comes is a cancellation`(through kind: YubiKeyModule.Kind) async throws
    {
        let scene = try await YubiKeyScene(
            kind, touchPolicy: .always, options: YubiKeyModule.reportingTouch)
        scene.yubiKey.card.touch = .wait
        let error = await scene.failure()
        #expect(error?.code == .cancelled, "\(String(describing: error))")
        scene.yubiKey.card.touch = .auto
        try await scene.expectSignature()
    }
}
