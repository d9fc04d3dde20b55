import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Key creation with ykcs11 2.2.0, and errors for unsupported operations.
struct YubiKeyMakingTests {
    private static let prompt = PromptContext(reason: "make a key", container: "tests")

    @Test(
        .virtualYubiKey(CardProfile(firmware: Firmware(5, 7, 1), managementKeyAlgorithm: .aes192)))
    func `an AES management key has another error than a wrong one`() async throws {
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(VirtualYubiKey.current.card)
        let presence = ScriptedPresence(
            pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey)
        let error = await #expect(throws: KeystoreError.self) {
            try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        }
        withExtendedLifetime(module) {}
        #expect(error?.code == .unsupported)
        #expect(error?.recovery.contains("2.3.0") == true)
    }

    @Test(.virtualYubiKey)
    func `a wrong management key is a wrong proof`() async throws {
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(VirtualYubiKey.current.card)
        let presence = ScriptedPresence(
            pins: CardProfile.defaultPIN,
            officerPIN: String(VirtualYubiKey.factoryManagementKey.reversed()))
        let error = await #expect(throws: KeystoreError.self) {
            try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        }
        withExtendedLifetime(module) {}
        #expect(error?.code == .wrongProof)
    }

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
