import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

@testable import LatchkeyPKCS11

/// Errors that name a slot or a key of a card, and the next step.
@Suite(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7)))
struct CardSlotTests {
    private static let prompt = PromptContext(reason: "make a key", container: "tests")

    private func create(
        _ keystore: PKCS11Keystore, _ policy: AccessPolicy = .pin,
        _ presence: ScriptedPresence? = nil
    ) async throws -> HardwareKey {
        let presence =
            presence
            ?? ScriptedPresence(
                pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey)
        return try await keystore.createKey(
            KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: presence)
    }

    private func error(_ work: () async throws -> Void) async throws -> KeystoreError {
        try #require(await #expect(throws: KeystoreError.self) { try await work() })
    }

    private let tool = SystemProgram("yubico-piv-tool")

    @Test func `a slot that the card lacks is unsupported`() async throws {
        let card = try VirtualYubiKey.current.card
        let module = try YubiKeyModule(.ykcs11)
        let error = try await error {
            _ = try await create(module.keystore(card, making: PIVSlot("84")))
        }
        #expect(error.code == .unsupported, "\(error)")
        #expect(error.reason.contains("slot 84: it may not have this slot"), "\(error)")
        #expect(error.recoveryAction.actions == [.chooseSlot])
        #expect(card.publicPoints.isEmpty)
    }

    @Test func `a card whose slots are all in use is a conflict`() async throws {
        let yubiKey = try VirtualYubiKey.current
        for slot in ["9c", "9a", "82", "83"] {
            try await tool.require([
                "-a", "generate", "-s", slot, "-A", "ECCP256", "-o", "/dev/null",
            ])
        }
        let keys = yubiKey.card.publicPoints
        let module = try YubiKeyModule(.ykcs11)
        let error = try await error { _ = try await create(module.keystore(yubiKey.card)) }
        #expect(error.code == .conflict, "\(error)")
        #expect(error.reason.contains("9c, 9a, 82, 83"), "\(error)")
        #expect(error.recoveryAction.actions.contains(.listTokenKeys))
        #expect(yubiKey.card.publicPoints == keys)
    }

    @Test func `the slot 9d is reserved for sealing`() async throws {
        let card = try VirtualYubiKey.current.card
        let module = try YubiKeyModule(.ykcs11)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let error = try await error {
            _ = try await create(module.keystore(card, making: .keyManagement), .pin, presence)
        }
        #expect(error.code == .unsupported)
        #expect(error.reason.contains("9d is reserved for the key that seals"))
        #expect(presence.requests.isEmpty)
    }

    @Test(arguments: [("RSA2048", "an RSA key"), ("ECCP384", "another curve than P-256")])
    func `a named key of another type is unsupported, and listed`(
        _ algorithm: String, _ name: String
    ) async throws {
        let card = try VirtualYubiKey.current.card
        try await tool.require(["-a", "generate", "-s", "9a", "-A", algorithm, "-o", "/dev/null"])
        try await tool.require(["-a", "generate", "-s", "9c", "-A", "ECCP256", "-o", "/dev/null"])
        let module = try YubiKeyModule(.ykcs11)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let error = try await error {
            _ = try await create(module.keystore(card, key: .authentication), .pin, presence)
        }
        #expect(error.code == .unsupported, "\(error)")
        #expect(error.reason.contains(name), "\(error)")
        #expect(error.recoveryAction.actions.contains(.listTokenKeys))
        #expect(presence.requests.isEmpty)
        let keys = try await module.keystore(card).keys()
        #expect(keys.map(\.slot?.description) == ["9a", "9c"])
        #expect(keys.map { $0.publicKey == nil } == [true, false])
    }

    @Test(arguments: ["RSA2048", "ECCP384"])
    func `a sealing slot with a key of another type is unsupported before a prompt`(
        _ algorithm: String
    ) async throws {
        let card = try VirtualYubiKey.current.card
        try await tool.require(["-a", "generate", "-s", "9e", "-A", algorithm, "-o", "/dev/null"])
        let module = try YubiKeyModule(.ykcs11)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let error = try await error {
            _ = try await module.keystore(card).seal(
                .random(count: 32), policy: .none, for: Self.prompt, authorizedBy: presence)
        }
        #expect(error.code == .unsupported, "\(error)")
        #expect(presence.requests.isEmpty)
    }

    @Test func `a key that was created through another module names both modules`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let (first, second) = (try YubiKeyModule(.ykcs11), try YubiKeyModule(.opensc))
        let key = try await create(first.keystore(yubiKey.card, key: .authentication))
        let error = try await error {
            _ = try await second.keystore(yubiKey.card).sign(
                MessageDigest(sha256: Array("a message".utf8)), with: key, for: Self.prompt,
                authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        }
        #expect(error.code == .wrongDevice)
        #expect(error.reason.contains("created through ykcs11"), "\(error)")
        #expect(error.reason.contains("opensc-pkcs11.so"), "\(error)")
        #expect(error.recovery.contains("module-path="))
        withExtendedLifetime(first) {}
    }

    @Test(arguments: [nil, PIVSlot.signature])
    func `a removal during the generation names the slot that may contain a key`(_ slot: PIVSlot?)
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(yubiKey.card, making: slot)
        yubiKey.card.inject(CardFault(.removal, instruction: 0x47))
        let error = try await error { _ = try await create(keystore) }
        #expect(error.code == .unavailable, "\(error)")
        #expect(error.recovery.contains("The slot 9c may now contain an unused key"), "\(error)")
        #expect(error.recoveryAction.actions.contains(.listTokenKeys), "\(error)")
        try await yubiKey.eject()
        try await yubiKey.insert()
        _ = try await create(keystore)
    }
}

/// A token that was never initialized.
@Suite(.softwareToken, .requires(program: "softhsm2-util"))
struct BlankTokenTests {
    @Test func `an uninitialized token is named as such`() async throws {
        let token = try SoftwareToken.current
        let uri = "pkcs11:serial=?module-path=\(token.modulePath)"
        let keystore = try PKCS11Keystore(uri: uri)
        for error in [
            await #expect(throws: KeystoreError.self) { _ = try await keystore.pinStatus() },
            await #expect(throws: KeystoreError.self) {
                _ = try await keystore.createKey(
                    KeyRequest(policy: .pin, prompt: KeystoreBench.prompt),
                    authorizedBy: ScriptedPresence([]))
            },
        ] {
            #expect(error?.code == .wrongState, "\(String(describing: error))")
            #expect(error?.reason.contains("is not initialized") == true)
            #expect(error?.recoveryAction.actions == [.initializeToken])
        }
    }
}
