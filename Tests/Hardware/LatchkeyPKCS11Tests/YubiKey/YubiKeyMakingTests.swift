import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Secrets that are sealed through ykcs11.
struct YubiKeyMakingTests {
    private static let prompt = PromptContext(reason: "make a key", container: "tests")

    @Test(
        .virtualYubiKey,
        arguments: [
            (TouchPolicy.never, AssuranceLevel.EnforcedPresence.pin), (.always, .touchAndPIN),
        ])
    func `a sealed secret's assurance contains its touch policy`(
        _ policy: TouchPolicy, _ presence: AssuranceLevel.EnforcedPresence
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.keyManagement, touchPolicy: policy)
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(yubiKey.card)
        let secret = try await keystore.seal(
            .random(count: 32), policy: .pin, for: Self.prompt,
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        withExtendedLifetime(module) {}
        #expect(secret.assurance.presence == presence)
    }
}
