import Foundation
import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Testing
import VirtualSmartCard

/// A YubiKey with a key in 9a, adopted through one of the modules.
struct YubiKeyScene {
    let yubiKey: VirtualYubiKey
    private let module: YubiKeyModule
    private let keystore: PKCS11Keystore
    private let key: HardwareKey

    /// - Parameter namesCard: Whether the keystore's URI names the card.
    init(
        _ kind: YubiKeyModule.Kind, touchPolicy: TouchPolicy = .never, namesCard: Bool = true,
        options: TokenOptions = YubiKeyModule.quick
    ) async throws {
        yubiKey = try VirtualYubiKey.current
        module = try YubiKeyModule(kind, options: options)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        if touchPolicy != .never {
            try await yubiKey.provision(
                .authentication, name: YubiKeyModule.name(of: yubiKey.card), touchPolicy: touchPolicy)
        }
        let card = namesCard ? yubiKey.card : nil
        key = try await module.keystore(card, key: .authentication).createKey(
            KeyRequest(policy: .pin, prompt: Self.prompt),
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        keystore = try module.keystore(card)
    }

    private static let prompt = PromptContext(reason: "sign", container: "tests")
    private static let digest = MessageDigest(sha256: Array("a message".utf8))

    /// Signs, and expects success.
    func expectSignature(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let signature = try await keystore.sign(
            Self.digest, with: key, for: Self.prompt, authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        #expect(key.publicKey.isValid(signature, for: Self.digest), sourceLocation: sourceLocation)
    }

    /// Signs, and expects an error.
    func failure(pin: String = CardProfile.defaultPIN) async -> KeystoreError? {
        await failure(ScriptedPresence(pins: pin))
    }

    func failure(_ presence: ScriptedPresence) async -> KeystoreError? {
        do {
            _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            return nil
        } catch {
            return error
        }
    }

    /// Signs, expects an error, and measures the time.
    func timedFailure() async -> (error: KeystoreError?, duration: Duration) {
        let start = ContinuousClock.now
        let error = await failure()
        return (error, ContinuousClock.now - start)
    }
}
