import Latchkey
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

@testable import LatchkeyPKCS11

/// An OpenPGP card through OpenSC, which shows a slot with the same serial number for each of its
/// two PINs.
@Suite(.virtualYubiKey(.openPGP(serialNumber: 7)))
struct OpenPGPCardTests {
    private static let prompt = PromptContext(reason: "sign", container: "tests")
    private static let options = YubiKeyModule.patient
    private static let digest = MessageDigest(sha256: Array("a message".utf8))

    /// A slot of OpenSC with the ID of its key.
    enum Slot: String, CaseIterable, CustomTestStringConvertible {
        case user = "OpenPGP card (User PIN)"
        case signature = "OpenPGP card (User PIN (sig))"

        var keyID: String { self == .user ? "%03" : "%01" }
        var other: Slot { self == .user ? .signature : .user }
        var testDescription: String { rawValue }
    }

    /// The URI that `token list` prints for a slot.
    private static func uri(of slot: Slot, in module: YubiKeyModule) async throws -> String {
        let directory = try await TokenDirectory.read(
            TokenURI(module.uri(nil, key: nil)), options: options)
        return try #require(directory.tokens.first { $0.information.label == slot.rawValue }).uri
            .string
    }

    private static func keystore(
        of slot: Slot, namesKey: Bool = false, in module: YubiKeyModule
    ) async throws -> PKCS11Keystore {
        let uri = try await uri(of: slot, in: module)
        return try PKCS11Keystore(
            uri: namesKey
                ? uri.replacing("?", with: ";id=\(slot.keyID)?", maxReplacements: 1) : uri,
            options: PKCS11Options(token: options))
    }

    private static func adopt(_ slot: Slot, in module: YubiKeyModule) async throws -> HardwareKey {
        try await keystore(of: slot, namesKey: true, in: module).createKey(
            KeyRequest(policy: .pin, prompt: prompt),
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
    }

    /// Signs, and checks the signature.
    private static func sign(
        with key: HardwareKey, on keystore: PKCS11Keystore,
        _ presence: ScriptedPresence = ScriptedPresence(pins: CardProfile.defaultPIN)
    ) async throws {
        let signature = try await keystore.sign(
            digest, with: key, for: prompt, authorizedBy: presence)
        #expect(key.publicKey.isValid(signature, for: digest))
    }

    /// Signs, and expects an error.
    private static func failure(
        with key: HardwareKey, on keystore: PKCS11Keystore, _ presence: ScriptedPresence
    ) async throws -> KeystoreError {
        try #require(
            await #expect(throws: KeystoreError.self) {
                _ = try await keystore.sign(digest, with: key, for: prompt, authorizedBy: presence)
            })
    }

    @Test func `the keys of both slots are adopted by the listed URIs, and sign`() async throws {
        let module = try YubiKeyModule(.opensc)
        var keys: [(Slot, HardwareKey)] = []
        for slot in Slot.allCases { keys.append((slot, try await Self.adopt(slot, in: module))) }
        #expect(Set(keys.map(\.1.publicKey)).count == 2)
        // Both keystores use the card in turn.
        for (slot, key) in keys + keys {
            let keystore = try await Self.keystore(of: slot, in: module)
            #expect(try await keystore.capabilities().device.contains(slot.rawValue))
            try await Self.sign(with: key, on: keystore)
        }
    }

    @Test(arguments: Slot.allCases)
    func `a key is refused through the other slot, without a prompt`(_ slot: Slot) async throws {
        let module = try YubiKeyModule(.opensc)
        let key = try await Self.adopt(slot, in: module)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let error = try await Self.failure(
            with: key, on: Self.keystore(of: slot.other, in: module), presence)
        #expect(error.code == .wrongDevice)
        #expect(
            error.reason.contains("the slot ‘\(slot.rawValue)’")
                && error.recoveryAction.actions == [.listTokens], "\(error)")
        #expect(presence.asked.isEmpty)
    }

    @Test func `a URI that matches both slots is an error that names both labels`() async throws {
        let module = try YubiKeyModule(.opensc)
        let error = try #require(
            await #expect(throws: KeystoreError.self) { try await module.keystore(nil).pinStatus() }
        )
        #expect(error.code == .conflict)
        for slot in Slot.allCases {
            #expect(error.reason.contains("“\(slot.rawValue)”"), "\(error)")
        }
        #expect(error.recoveryAction.actions == [.listTokens])
    }

    @Test func `a login that is kept in one slot is not used in the other one`() async throws {
        let module = try YubiKeyModule(.opensc)
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 60))
        let user = try await Self.keystore(of: .user, namesKey: true, in: module)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let key = try await user.createKey(
            KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: presence)
        try await Self.sign(with: key, on: user, presence)
        #expect(presence.requests.count == 1)
        let other = ScriptedPresence(pins: CardProfile.defaultPIN)
        _ = try await Self.keystore(of: .signature, namesKey: true, in: module).createKey(
            KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: other)
        #expect(other.requests.count == 1)
        user.endReuse()
        let next = ScriptedPresence(pins: CardProfile.defaultPIN)
        try await Self.sign(with: key, on: user, next)
        #expect(next.requests.count == 1)
    }

    @Test(arguments: Slot.allCases)
    func `wrong PINs are reported with the attempts left, and lock the card`(_ slot: Slot)
        async throws
    {
        let module = try YubiKeyModule(.opensc)
        let key = try await Self.adopt(slot, in: module)
        let keystore = try await Self.keystore(of: slot, in: module)
        for (before, left) in [(Int?.none, 2), (2, 1)] {
            let presence = ScriptedPresence(pins: "111111")
            let error = try await Self.failure(with: key, on: keystore, presence)
            #expect(presence.requests.map(\.attemptsLeft) == [before])
            #expect(error.code == .wrongProof && error.attemptsLeft == left, "\(error)")
            #expect(try await keystore.pinStatus().attemptsLeft == left)
        }
        let last = ScriptedPresence(pins: "111111")
        let error = try await Self.failure(with: key, on: keystore, last)
        #expect(error.code == .lockedOut, "\(error)")
        #expect(last.requests.map(\.attemptsLeft) == [1])
        #expect(try await keystore.pinStatus().isLockedOut)
        let locked = ScriptedPresence(pins: CardProfile.defaultPIN)
        #expect(try await Self.failure(with: key, on: keystore, locked).code == .lockedOut)
        #expect(locked.asked.isEmpty)
    }

    /// The key of a slot is adopted. A slot has one signing key, so the requirements with two keys
    /// do not apply.
    @Test(
        arguments: KeystoreContract.Requirement.allCases.filter {
            ![.eachKeyIsNew, .editedPublicKey].contains($0)
        })
    func `A keystore on an OpenPGP card through OpenSC`(_ requirement: KeystoreContract.Requirement)
        async throws
    {
        let module = try YubiKeyModule(.opensc, options: YubiKeyModule.neverHanging)
        let yubiKey = try VirtualYubiKey.current
        let contract = KeystoreContract(
            device: KeystoreContract.Device(
                pin: .ofDevice(CardProfile.defaultPIN), guessing: .locks(after: 3),
                pinBytes: 6...127,
                lendsKeys: true, hasOneKeyPerPolicy: true, hasOpenKeys: false, canSeal: false),
            open: { try await Self.keystore(of: .user, in: module) },
            openToMake: { _ in try await Self.keystore(of: .user, namesKey: true, in: module) },
            openOther: { body in
                let card = try await yubiKey.insert(.openPGP(serialNumber: 8))
                let uri = module.uri(nil, key: nil).replacing(
                    ":?", with: ":serial=f1d000000008;token=OpenPGP%20card%20%28User%20PIN%29?")
                try await body(
                    PKCS11Keystore(uri: uri, options: PKCS11Options(token: Self.options)))
                withExtendedLifetime(card) {}
            })
        try await contract.check(requirement)
    }
}
