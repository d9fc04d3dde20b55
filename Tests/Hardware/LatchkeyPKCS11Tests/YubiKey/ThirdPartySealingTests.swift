import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Sealing on a card without attestation: only with a key that Latchkey generated.
@Suite(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7)))
struct ThirdPartySealingTests {
    private static let prompt = PromptContext(reason: "seal", container: "tests")

    private static func user() -> ScriptedPresence {
        ScriptedPresence(
            pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey)
    }

    private func seal(
        _ keystore: PKCS11Keystore, _ policy: AccessPolicy, _ presence: ScriptedPresence = user()
    ) async throws {
        let secret = SecretBytes.random(count: 32)
        let sealed = try await keystore.seal(
            secret, policy: policy, for: Self.prompt, authorizedBy: presence)
        let opened = try await keystore.unseal(sealed, for: Self.prompt, authorizedBy: Self.user())
        #expect(opened == secret)
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `a generated key seals again with the same store, and not with another one`(
        _ policy: AccessPolicy
    )
        async throws
    {
        let card = try VirtualYubiKey.current.card
        let anchors = MemoryTrustAnchors()
        let first = try YubiKeyModule(.ykcs11)
        try await seal(first.keystore(card, anchors: anchors), policy)
        // Another copy of the module stands for another process.
        let second = try YubiKeyModule(.ykcs11)
        try await seal(second.keystore(card, anchors: anchors), policy)
        #expect(card.statistics.instructions["47"] == 1)
        let presence = Self.user()
        let error = await #expect(throws: KeystoreError.self) {
            try await seal(second.keystore(card), policy, presence)
        }
        #expect(error?.code == .refused)
        #expect(
            error?.reason.contains("the card has no attestation, and the store has no record")
                == true)
        #expect(presence.requests.isEmpty)
        withExtendedLifetime(first) {}
    }

    @Test(arguments: [(KeySlot.cardAuthentication, AccessPolicy.none), (.keyManagement, .pin)])
    func `a key of another program is refused without a prompt`(
        _ slot: KeySlot, _ policy: AccessPolicy
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(slot)
        let keys = yubiKey.card.publicPoints
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(yubiKey.card)
        let presence = Self.user()
        let error = await #expect(throws: KeystoreError.self) {
            try await seal(keystore, policy, presence)
        }
        #expect(error?.code == .refused)
        #expect(
            error?.reason.contains("in the slot \(String(slot.rawValue, radix: 16))") == true,
            "\(String(describing: error))")
        #expect(presence.requests.isEmpty)
        #expect(yubiKey.card.publicPoints == keys)
        let other = policy == .none ? AccessPolicy.pin : .none
        let capabilities = try await keystore.capabilities()
        #expect(throws: KeystoreError(code: .refused, reason: "", recovery: "")) {
            try capabilities.checkSealing(under: policy)
        }
        try capabilities.checkSealing(under: other)
        try await seal(keystore, other)
    }

    @Test(.virtualYubiKey)
    func `a YubiKey's generated key has an attestation, which every store accepts`() async throws {
        let card = try VirtualYubiKey.current.card
        let module = try YubiKeyModule(.ykcs11)
        for _ in 0..<2 { try await seal(module.keystore(card), .none) }
        #expect(card.statistics.instructions["47"] == 1)
    }

    @Test(arguments: [(KeySlot.cardAuthentication, AccessPolicy.none), (.keyManagement, .pin)])
    func
        `a key that another program creates during the prompt is refused, and there is no other prompt`(
            _ slot: KeySlot, _ policy: AccessPolicy
        ) async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let presence = SlowPresence(yubiKey, fills: slot, at: .securityOfficer)
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(yubiKey.card)
        let error = await #expect(throws: KeystoreError.self) {
            _ = try await keystore.seal(
                .random(count: 32), policy: policy, for: Self.prompt, authorizedBy: presence)
        }
        #expect(presence.other != nil)
        #expect(presence.prompts == 1)
        #expect(error?.code == .refused)
    }

    @Test(arguments: [CardFault.Effect.removal, .status(StatusWord(rawValue: 0x6F00))])
    func `a generation that fails is reported, and leaves no unrecorded key in use`(
        _ effect: CardFault.Effect
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(yubiKey.card)
        for number in 1...3 {
            yubiKey.card.inject(CardFault(effect, atCommand: number, instruction: 0x47))
        }
        let error = await #expect(throws: KeystoreError.self) { try await seal(keystore, .none) }
        yubiKey.card.removeFaults()
        if effect == .removal {
            #expect(error?.code == .unavailable)
            #expect(error?.recovery.contains("The slot 9e may now contain an unused key") == true)
            try await yubiKey.eject()
            try await yubiKey.insert()
        } else {
            #expect(error?.code == .unsupported)
            #expect(error?.reason.contains("slot 9e") == true)
        }
        try await seal(keystore, .none)
    }

    /// The parts of the contract that the modules lack. `KeystoreContract` expects them as
    /// `unsupported` where it can.
    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `operations that the card or module lacks are unsupported, without a prompt`(
        _ kind: YubiKeyModule.Kind
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication, name: YubiKeyModule.name(of: yubiKey.card))
        let keys = yubiKey.card.publicPoints
        let module = try YubiKeyModule(kind)
        let keystore = try module.keystore(yubiKey.card)
        #expect(try await !keystore.capabilities().canAttest)
        let presence = ScriptedPresence([])
        let request = KeyRequest(policy: kind == .ykcs11 ? .none : .pin, prompt: Self.prompt)
        let creation = await #expect(throws: KeystoreError.self) {
            _ = try await keystore.createKey(request, authorizedBy: presence)
        }
        #expect(creation?.code == .unsupported)
        if kind == .opensc {
            let sealing = await #expect(throws: KeystoreError.self) {
                try await seal(keystore, .none, presence)
            }
            #expect(sealing?.code == .unsupported)
        }
        #expect(presence.requests.isEmpty)
        #expect(yubiKey.card.publicPoints == keys)
    }

    @Test func `OpenSC names the certificate that it needs`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication, name: YubiKeyModule.name(of: yubiKey.card))
        try await yubiKey.provision(.cardAuthentication, name: "signs only", agreesOnKeys: false)
        let module = try YubiKeyModule(.opensc)
        let keystore = try module.keystore(yubiKey.card)
        let error = await #expect(throws: KeystoreError.self) { try await seal(keystore, .none) }
        #expect(error?.code == .unsupported)
        #expect(
            error?.reason.contains("certificate with the key usage `keyAgreement`") == true,
            "\(String(describing: error))")
    }
}
