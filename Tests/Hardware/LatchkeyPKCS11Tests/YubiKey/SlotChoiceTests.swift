import Crypto
import Foundation
import Latchkey
import LatchkeyPKCS11
import LatchkeyTesting
import Synchronization
import Testing
import VirtualSmartCard

/// A key that another program creates during a prompt of Latchkey is not overwritten.
@Suite(.virtualYubiKey)
struct SlotChoiceTests {
    private static let prompt = PromptContext(reason: "make a key", container: "tests")

    /// The public key in a slot of the card.
    private func publicKey(in slot: KeySlot) throws -> Data? {
        try VirtualYubiKey.current.card.publicPoints[slot].map { Data($0) }
    }

    @Test func `a slot that is filled during the last prompt is not used, and the next one is`()
        async throws
    {
        let presence = try SlowPresence(VirtualYubiKey.current, fills: .signature, at: .current)
        let module = try YubiKeyModule(.ykcs11)
        let key = try await module.keystore(presence.yubiKey.card).createKey(
            KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        let other = try #require(presence.other)
        #expect(key.publicKey.x963Representation != other)
        #expect(try publicKey(in: .signature) == other)
        #expect(try publicKey(in: .authentication) == key.publicKey.x963Representation)
        withExtendedLifetime(module) {}
    }

    @Test func `a named slot that is filled during the last prompt is a conflict`() async throws {
        let presence = try SlowPresence(VirtualYubiKey.current, fills: .signature, at: .current)
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(presence.yubiKey.card, making: .signature)
        let error = await #expect(throws: KeystoreError.self) {
            try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Self.prompt), authorizedBy: presence)
        }
        #expect(error?.code == .conflict)
        #expect(try publicKey(in: .signature) == presence.other)
        withExtendedLifetime(module) {}
    }

    @Test func `a sealing key that another program creates during the prompt is used`() async throws
    {
        let presence = try SlowPresence(
            VirtualYubiKey.current, fills: .cardAuthentication, at: .securityOfficer)
        let card = presence.yubiKey.card
        let module = try YubiKeyModule(.ykcs11)
        let keystore = try module.keystore(card)
        let secret = SecretBytes.random(count: 32)
        let sealed = try await keystore.seal(
            secret, policy: .none, for: Self.prompt, authorizedBy: presence)
        #expect(presence.other != nil)
        let generations = card.statistics.instructions["47"]
        let opened = try await keystore.unseal(
            sealed, for: Self.prompt, authorizedBy: ScriptedPresence([]))
        #expect(opened == secret)
        #expect(generations == 1, "yubico-piv-tool's is the only one")
        withExtendedLifetime(module) {}
    }
}

/// Types the PINs, and creates a key with yubico-piv-tool at the last prompt.
final class SlowPresence: PresenceAuthority {
    let yubiKey: VirtualYubiKey
    let slot: KeySlot
    let last: PINRequest.Purpose
    private let made = Mutex<Data?>(nil)
    private let count = Mutex(0)

    init(_ yubiKey: VirtualYubiKey, fills slot: KeySlot, at last: PINRequest.Purpose) {
        self.yubiKey = yubiKey
        self.slot = slot
        self.last = last
    }

    var prompts: Int { count.withLock(\.self) }
    /// The other program's key.
    var other: Data? { made.withLock { $0 } }

    func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer {
        count.withLock { $0 += 1 }
        if request.purpose == last, other == nil {
            let key = try? await yubiKey.provision(slot)
            made.withLock { $0 = key?.x963Representation }
        }
        let isOfficer = request.purpose == .securityOfficer
        return .pin(
            try PIN(isOfficer ? VirtualYubiKey.factoryManagementKey : CardProfile.defaultPIN))
    }
}
