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
    let keystore: PKCS11Keystore
    private let key: HardwareKey

    /// - Parameter namesCard: Whether the keystore's URI names the card.
    init(
        _ kind: YubiKeyModule.Kind, touchPolicy: TouchPolicy = .never, namesCard: Bool = true,
        options: TokenOptions = YubiKeyModule.patient
    ) async throws {
        yubiKey = try VirtualYubiKey.current
        module = try YubiKeyModule(kind, options: options)
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        if touchPolicy != .never {
            try await yubiKey.provision(
                .authentication, name: YubiKeyModule.name(of: yubiKey.card),
                touchPolicy: touchPolicy)
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
            Self.digest, with: key, for: Self.prompt,
            authorizedBy: ScriptedPresence(pins: CardProfile.defaultPIN))
        #expect(key.publicKey.isValid(signature, for: Self.digest), sourceLocation: sourceLocation)
    }

    /// Signs, and expects an error.
    func failure(pin: String = CardProfile.defaultPIN) async -> KeystoreError? {
        await failure(ScriptedPresence(pins: pin))
    }

    func failure(_ presence: ScriptedPresence) async -> KeystoreError? {
        do {
            _ = try await keystore.sign(
                Self.digest, with: key, for: Self.prompt, authorizedBy: presence)
            return nil
        } catch {
            return error
        }
    }

    /// Enters a wrong PIN three times. Expects the attempts left in the prompts, in the errors and
    /// in the status, and expects that the card is not asked for them before a signature without an
    /// earlier wrong PIN.
    func expectCountedAttempts() async throws {
        try await expectSignature()
        let usual = try await commandsOfSignature()
        #expect(await failure(pin: "111111")?.attemptsLeft == 2)
        let right = ScriptedPresence(pins: CardProfile.defaultPIN)
        _ = try await keystore.sign(Self.digest, with: key, for: Self.prompt, authorizedBy: right)
        #expect(right.requests.map(\.attemptsLeft) == [2])
        #expect(try await commandsOfSignature() == usual, "the correct PIN restores the attempts")

        #expect(
            try await keystore.pinStatus()
                == PINStatus(attemptsLeft: 3, attemptLimit: nil, isLockedOut: false))
        for (before, left) in [(Int?.none, 2), (2, 1)] {
            let presence = ScriptedPresence(pins: "111111")
            let error = await failure(presence)
            #expect(presence.requests.map(\.attemptsLeft) == [before])
            #expect(
                error?.code == .wrongProof && error?.attemptsLeft == left,
                "\(String(describing: error))")
            #expect(
                error?.reason
                    == "the PIN is wrong; \(left == 1 ? "1 attempt is" : "\(left) attempts are") left"
            )
            #expect(try await keystore.pinStatus().attemptsLeft == left)
        }
        let last = ScriptedPresence(pins: "111111")
        #expect(await failure(last)?.code == .lockedOut)
        #expect(last.requests.map(\.attemptsLeft) == [1])
        let status = try await keystore.pinStatus()
        #expect(status.isLockedOut && status.attemptsLeft == 0)
    }

    /// The number of commands that the card gets for a signature.
    private func commandsOfSignature() async throws -> Int {
        let before = yubiKey.card.statistics.commands
        try await expectSignature()
        return yubiKey.card.statistics.commands - before
    }
}
