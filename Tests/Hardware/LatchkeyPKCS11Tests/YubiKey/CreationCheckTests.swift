import FoundationEssentials
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// The checks before the first prompt of key creation, which `doctor` makes too, and the proof of
/// the PIN policy.
struct CreationCheckTests {
    private static let prompt = PromptContext(reason: "make a key", container: "tests")

    /// Expects the same error from the check and from `createKey`, which must not prompt.
    private func expectRefusal(
        _ code: CommonErrorCode, _ words: String, _ keystore: PKCS11Keystore,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let presence = ScriptedPresence(
            pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey)
        let check = await #expect(throws: KeystoreError.self, sourceLocation: sourceLocation) {
            _ = try await keystore.checkCreation()
        }
        let creation = await #expect(throws: KeystoreError.self, sourceLocation: sourceLocation) {
            try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        }
        #expect(check?.code == code, sourceLocation: sourceLocation)
        #expect(
            check?.description.contains(words) == true, "\(String(describing: check))",
            sourceLocation: sourceLocation)
        #expect(check?.description == creation?.description, sourceLocation: sourceLocation)
        #expect(presence.requests.isEmpty, sourceLocation: sourceLocation)
    }

    @Test(.virtualYubiKey)
    func `a YubiKey with a free slot creates a key there, and a slot in use is a conflict`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.signature)
        let module = try YubiKeyModule(.ykcs11)
        let check = try await module.keystore(yubiKey.card).checkCreation()
        #expect(check.slot?.description == "9a" && check.isKnown && check.sealingFailure == nil)
        guard case .notTried = check.rehearsal else {
            Issue.record("\(check.rehearsal)")
            return
        }
        try await expectRefusal(
            .conflict, "9c", module.keystore(yubiKey.card, making: PIVSlot("9c")))
    }

    @Test(.virtualYubiKey, .requires(program: "openssl"))
    func `a key that was imported into a YubiKey is refused before a prompt, and listed so`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let directory = try TemporaryDirectory()
        let file = directory.path(of: "key.pem")
        try await SystemProgram("openssl").require([
            "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", file,
        ])
        try await yubiKey.provision(.signature)
        try await SystemProgram("yubico-piv-tool").require([
            "-a", "import-key", "-s", "9a", "-i", file,
        ])
        let module = try YubiKeyModule(.ykcs11)
        try await expectRefusal(
            .refused, "was imported into the card",
            module.keystore(yubiKey.card, key: .authentication))
        let keys = try await module.keystore(yubiKey.card).keys()
        for (slot, isUsable) in [("9a", false), ("9c", true)] {
            let key = try #require(keys.first { $0.slot?.description == slot })
            #expect((key.problem == nil && key.uri != nil) == isUsable, "\(key)")
            #expect(isUsable || key.problem?.contains("imported") == true, "\(key)")
        }
    }

    @Test(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7)))
    func `a retired slot of a card without attestation is not known to exist`() async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(yubiKey.card)
        let first = try await keystore.checkCreation()
        #expect(first.slot?.description == "9c" && first.isKnown)
        for slot in [KeySlot.signature, .authentication] { try await yubiKey.provision(slot) }
        let other = try YubiKeyModule(.ykcs11)
        let later = try await other.keystore(yubiKey.card).checkCreation()
        #expect(later.slot?.description == "82" && !later.isKnown)
        withExtendedLifetime(module) {}
    }

    @Test(.virtualYubiKey)
    func `through OpenSC a PIV card creates no keys, and adopts one with a certificate`()
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(.opensc)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        try await expectRefusal(
            .unsupported, "can't create P-256 keys", module.keystore(yubiKey.card))
        #expect(
            try await module.keystore(yubiKey.card, key: .authentication).checkCreation().isKnown)
        try await expectRefusal(
            .notFound, "no P-256 key", module.keystore(yubiKey.card, key: .signature))
    }

    @Test(.virtualYubiKey(.openPGP(serialNumber: 7)))
    func `an OpenPGP card creates no keys, and adopts its own`() async throws {
        let module = try YubiKeyModule(.opensc)
        func keystore(_ id: String) throws -> PKCS11Keystore {
            let name = "pkcs11:token=OpenPGP%20card%20%28User%20PIN%29\(id)?"
            return try PKCS11Keystore(
                uri: module.uri(nil, key: nil).replacing("pkcs11:?", with: name))
        }
        try await expectRefusal(.unsupported, "can't create P-256 keys", keystore(""))
        _ = try await keystore(";id=%03").checkCreation()
        withExtendedLifetime(module) {}
    }

    @Test(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7)), arguments: YubiKeyModule.Kind.allCases)
    func `without an attestation, an adopted key proves no PIN policy`(_ kind: YubiKeyModule.Kind)
        async throws
    {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(kind)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        // The card signs with this key without a PIN.
        try await yubiKey.provision(
            .authentication, name: YubiKeyModule.name(of: yubiKey.card), pinPolicy: .never)
        let adopted = try await module.keystore(yubiKey.card, key: .authentication).createKey(
            KeyRequest(policy: .pin, prompt: Self.prompt),
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        #expect(adopted.assurance.presence == .unknown)
        #expect(adopted.assurance.pinProtection == .device)
    }

    @Test(.virtualYubiKey(.thirdPartyPIV(serialNumber: 7)))
    func `a new key has the PIN policy of its slot`() async throws {
        let yubiKey = try VirtualYubiKey.current
        let presence = ScriptedPresence(
            pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey)
        let module = try YubiKeyModule(.ykcs11)
        let key = try await module.keystore(yubiKey.card).createKey(
            KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        withExtendedLifetime(module) {}
        #expect(key.assurance.presence == .pin)
    }

    @Test(.virtualYubiKey)
    func `an attestation proves the PIN policy of an adopted key`() async throws {
        let yubiKey = try VirtualYubiKey.current
        try await yubiKey.provision(.authentication)
        let module = try YubiKeyModule(.ykcs11)
        let key = try await module.keystore(yubiKey.card, key: .authentication).createKey(
            KeyRequest(policy: .pin, prompt: Self.prompt),
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        withExtendedLifetime(module) {}
        #expect(key.assurance.presence == .pin)
    }
}
