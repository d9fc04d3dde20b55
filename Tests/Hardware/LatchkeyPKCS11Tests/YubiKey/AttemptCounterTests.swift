import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Testing
import VirtualSmartCard

@testable import LatchkeyPKCS11

/// The card's counter of wrong PINs, in prompts, errors and the PIN status.
@Suite(.virtualYubiKey)
struct AttemptCounterTests {
    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `wrong PINs are reported with the attempts left`(through kind: YubiKeyModule.Kind)
        async throws
    {
        try await YubiKeyScene(kind).expectCountedAttempts()
    }

    @Test(arguments: YubiKeyModule.Kind.allCases)
    func `the status of a kept login does not end it`(through kind: YubiKeyModule.Kind) async throws
    {
        let module = try YubiKeyModule(kind)
        let yubiKey = try VirtualYubiKey.current
        try await YubiKeyModule.provision(yubiKey, yubiKey.card)
        let keystore = try module.keystore(yubiKey.card, key: .authentication)
        let presence = ScriptedPresence(pins: CardProfile.defaultPIN)
        let prompt = PromptContext(reason: "sign", container: "tests")
        let key = try await keystore.createKey(
            KeyRequest(policy: #require(AccessPolicy(.pin, reuseSeconds: 60)), prompt: prompt),
            authorizedBy: presence)
        #expect(
            try await keystore.pinStatus()
                == PINStatus(attemptsLeft: nil, attemptLimit: nil, isLockedOut: false))
        _ = try await keystore.sign(
            MessageDigest(sha256: [1]), with: key, for: prompt, authorizedBy: presence)
        #expect(presence.requests.count == 1)
        keystore.endReuse()
    }

    @Test func `a card without the application and an unknown reader give no number`() throws {
        let reader = SmartCardReader.name(ofSlot: 0)
        #expect(PINCounter.piv.attemptsLeft(inReader: reader, within: hangLimit) == 3)
        #expect(PINCounter.openPGP.attemptsLeft(inReader: reader, within: hangLimit) == nil)
        #expect(PINCounter.piv.attemptsLeft(inReader: "no such reader", within: hangLimit) == nil)
        #expect(
            PINCounter.piv.attemptsLeft(
                inReader: SmartCardReader.name(ofSlot: 1), within: hangLimit) == nil)
    }

    @Test(arguments: [false, true])
    func `a card that another program holds gives no number, and is not waited for`(
        isExclusive: Bool
    ) throws {
        let reader = SmartCardReader.name(ofSlot: 0)
        do {
            let holder = try CardObserver(isExclusive: isExclusive)
            if !isExclusive { try holder.beginTransaction() }
            #expect(
                PINCounter.piv.attemptsLeft(inReader: reader, within: .milliseconds(100)) == nil)
            withExtendedLifetime(holder) {}
        }
        #expect(PINCounter.piv.attemptsLeft(inReader: reader, within: hangLimit) == 3)
    }
}
