import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Testing

@testable import LatchkeyPasskeys

/// Whether a question states that the verification of a login requests a PIN. A prompt without this
/// must show the question itself.
@Suite(.softwareTPM) struct PINPromptTests {
    @Test func `the verification requests a PIN if the passkey is known to have a usable one`()
        async throws
    {
        try await Rig.with(ScriptedPrompt(asksForPINPrompts: true)) { rig in
            _ = try await rig.ask(Rig.registration(user: "ada"))
            _ = try await rig.ask(Rig.assertion())
            _ = try await rig.ask(Rig.registration(user: "eve"))
            _ = try await rig.ask(Rig.assertion())
            #expect(
                rig.prompt.pinPrompts == [false, true, false, false],
                "not for a new passkey, and not for two")
        }
    }

    @Test func `a locked PIN or a policy without a PIN requires a question`() async throws {
        try await Rig.with { rig in
            _ = try await rig.ask(Rig.registration())
            let stored = try #require(try rig.store.list().first)
            try rig.store.add(stored.requiringFinger(at: "finger.org"))
            func pinPrompts(_ keystore: any PasskeyKeystore, _ request: [UInt8]) async -> [Bool] {
                let prompt = ScriptedPrompt(asksForPINPrompts: true, answer: { _ in .no })
                let engine = PasskeyEngine(
                    keystore: keystore, store: rig.store, prompt: prompt, policy: { .pin },
                    clock: rig.clock.clock)
                _ = await Authenticator(engine).respond(to: request)
                return prompt.pinPrompts
            }
            let locked = LockedPINKeystore(passkeys: rig.keystore)
            #expect(await pinPrompts(rig.keystore, Rig.assertion()) == [true])
            #expect(await pinPrompts(locked, Rig.assertion()) == [false])
            #expect(await pinPrompts(rig.keystore, Rig.assertion(site: "finger.org")) == [false])
        }
    }
}

/// A keystore whose PINs are locked.
private struct LockedPINKeystore: KeystoreWrapper, PasskeyKeystore {
    let passkeys: any PasskeyKeystore

    var keystore: any Keystore { passkeys }

    func pinStatus(of subject: PINSubject) async throws(KeystoreError) -> PINStatus {
        guard case .key = subject else { return try await keystore.pinStatus(of: subject) }
        return PINStatus(attemptsLeft: 0, attemptLimit: 10, isLockedOut: true)
    }

    func createMACKey(
        policy: AccessPolicy, for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority
    ) async throws(KeystoreError) -> SealedSecret {
        try await passkeys.createMACKey(policy: policy, for: prompt, authorizedBy: presence)
    }

    func sign(
        with key: HardwareKey, after messages: [Data], with macKey: SealedSecret,
        for prompt: PromptContext,
        authorizedBy presence: any PresenceAuthority,
        digest: @Sendable ([SecretBytes]) throws(KeystoreError) -> MessageDigest
    ) async throws(KeystoreError) -> (signature: ECDSASignature, codes: [SecretBytes]) {
        try await passkeys.sign(
            with: key, after: messages, with: macKey, for: prompt, authorizedBy: presence,
            digest: digest)
    }
}

extension Passkey {
    /// A passkey whose policy accepts only a fingerprint. Its key cannot sign.
    fileprivate func requiringFinger(at site: String) -> Passkey {
        let finger = HardwareKey(
            id: key.id, backend: key.backend, policy: .biometryAny, assurance: key.assurance,
            publicKey: key.publicKey,
            label: key.label, createdAt: key.createdAt, blob: key.blob)
        return Passkey(
            id: SecretBytes.random(count: Passkey.idBytes).withUnsafeBytes { Data($0) }, rpID: site,
            rpName: nil,
            userID: userID, userName: userName, displayName: nil, protection: 1,
            isDiscoverable: true, key: finger,
            macKey: nil, label: nil)
    }
}
