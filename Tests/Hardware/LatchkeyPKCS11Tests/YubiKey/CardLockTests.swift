import Foundation
import Latchkey
import LatchkeyPKCS11
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// Another program that is connected to the card can't use a key after Latchkey has used it.
@Suite(.virtualYubiKey)
struct CardLockTests {
    private static let prompt = PromptContext(reason: "sign", container: "tests")
    private static let digest = MessageDigest(sha256: Array("a message".utf8))

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `after a signature the card is locked for other programs`(_ kind: YubiKeyModule.Kind)
        async throws
    {
        let scene = try await YubiKeyScene(kind)
        let observer = try CardObserver()
        for _ in 0..<2 {
            try await scene.expectSignature()
            #expect(try !observer.seesVerifiedPIN())
            #expect(try !observer.signs(with: .authentication))
        }
        #expect(observer.resets >= 2)
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `after a failed signature the card is locked for other programs`(
        _ kind: YubiKeyModule.Kind
    ) async throws {
        let scene = try await YubiKeyScene(kind, touchPolicy: .always)
        let observer = try CardObserver()
        scene.yubiKey.card.touch = .deny
        #expect(await scene.failure() != nil)
        #expect(try !observer.seesVerifiedPIN())
        scene.yubiKey.card.touch = .auto
        #expect(try !observer.signs(with: .authentication))
        try await scene.expectSignature()
    }

    @Test func `after a key was created the card requires the PIN and the management key again`()
        async throws
    {
        let module = try YubiKeyModule(.ykcs11)
        let observer = try CardObserver()
        let keystore = try module.keystore(VirtualYubiKey.current.card)
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 60))
        _ = try await keystore.createKey(
            KeyRequest(policy: policy, prompt: Self.prompt),
            authorizedBy: ScriptedPresence(
                pins: CardProfile.defaultPIN, officerPIN: VirtualYubiKey.factoryManagementKey))
        #expect(try !observer.seesVerifiedPIN())
        #expect(try !observer.generates(in: .signature))
        #expect(try !observer.signs(with: .authentication))
        withExtendedLifetime(module) {}
    }

    @Test(arguments: YubiKeyModule.Kind.allCases, [false, true])
    func `the card is unlocked for the reuse time and no longer`(
        _ kind: YubiKeyModule.Kind, endsEarly: Bool
    ) async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(kind)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let observer = try CardObserver()
        let keystore = try module.keystore(yubiKey.card, key: .authentication)
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: endsEarly ? 300 : 3))
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let key = try await keystore.createKey(
            KeyRequest(policy: policy, prompt: Self.prompt), authorizedBy: presence)
        let resets = observer.resets
        if endsEarly {
            for _ in 0..<3 {
                let signature = try await keystore.sign(
                    Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
                #expect(key.publicKey.isValid(signature, for: Self.digest))
            }
            // The threat model states that another program on this pcscd can use a key while a
            // policy keeps the login.
            #expect(try observer.seesVerifiedPIN())
            #expect(presence.requests.count == 1)
            #expect(observer.resets == resets, "within the time of reuse the card is not reset")
            keystore.endReuse()
        }
        try await expectLocked(observer)
        #expect(try !observer.signs(with: .authentication))
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `endLogins() returns after the card is locked`(_ kind: YubiKeyModule.Kind) async throws {
        let yubiKey = try VirtualYubiKey.current
        let module = try YubiKeyModule(kind)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let observer = try CardObserver()
        let policy = try #require(AccessPolicy(.pin, reuseSeconds: 300))
        _ = try await module.keystore(yubiKey.card, key: .authentication).createKey(
            KeyRequest(policy: policy, prompt: Self.prompt),
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        #expect(try observer.seesVerifiedPIN())
        await module.endLogins()
        #expect(try !observer.seesVerifiedPIN())
    }

    private func expectLocked(_ observer: CardObserver) async throws {
        #expect(try await poll { try !observer.seesVerifiedPIN() })
    }
}
