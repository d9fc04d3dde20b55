import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import Testing

/// The numbers of `design/quality.md`, command by command.
@Suite(.softwareTPM)
struct CommandBudgetTests {
    @Test func `a key is made with three commands`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.key(keystore)
        wire.forget()
        _ = try await Scene.key(keystore)
        #expect(wire.codes == [.readPublic, .startAuthSession, .create])
    }

    @Test func `a process that never saw the TPM signs with five commands`() async throws {
        let wire = Wire()
        let anchors = MemoryTrustAnchors()
        let tpm = try SoftwareTPM.current
        let first = wire.keystore(tpm, anchors: anchors)
        let key = try await Scene.key(first)
        try await Scene.sign(first, key)
        wire.forget()
        try await Scene.sign(wire.keystore(tpm, anchors: anchors), key)
        #expect(wire.codes == [.getCapability, .startAuthSession, .load, .sign, .flushContext])
    }

    @Test func `behind a resource manager one command and the flush are left after the PIN`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current, isShared: true)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        wire.forget()
        let presence = ScriptedPresence([.hesitate, .decline, .pin("654321"), .pin("123456")])
        let waiting = Task { () async -> KeystoreError? in
            await Scene.error { () async throws(KeystoreError) in try await Scene.sign(keystore, key, presence) }
        }
        while presence.requests.isEmpty { await Task.yield() }
        #expect(wire.codes == [.getCapability, .startAuthSession, .load])
        waiting.cancel()
        #expect(await waiting.value?.code == .cancelled)
        try Scene.expectNothingLoaded("after a cancelled prompt")
        for (code, comment) in [(KeystoreError.Code.cancelled, "after a no"), (.wrongProof, "after a wrong PIN")] {
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(error?.code == code)
            try Scene.expectNothingLoaded("\(comment)")
        }
        wire.forget()
        try await Scene.sign(keystore, key, presence)
        #expect(wire.codes == [.getCapability, .startAuthSession, .load, .sign, .flushContext])
        try Scene.expectNothingLoaded("after a signature")
    }

    @Test func `a key without a PIN signs with four commands`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await Scene.key(keystore, .none)
        wire.forget()
        try await Scene.sign(keystore, key)
        #expect(wire.codes == [.startAuthSession, .load, .sign, .flushContext])
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `a secret is sealed with three commands and opened with four, or five with a PIN`(
        _ policy: AccessPolicy
    ) async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.sign(keystore, try await Scene.key(keystore))
        wire.forget()
        let secret = try await keystore.seal(
            .random(count: 32), policy: policy, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        #expect(wire.codes == [.readPublic, .startAuthSession, .create])
        wire.forget()
        _ = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        let lockout = policy == .pin ? [.getCapability] : [TPMCommandCode]()
        #expect(wire.codes == lockout + [.startAuthSession, .load, .unseal, .flushContext])
    }

    /// Two more than for a key with a finger only, whose seven are in ``FingerPolicyTests``: the policy has a second branch
    /// (PolicyOR), and how many PINs are left is read where one is going to be asked for.
    @Test(arguments: [PresencePreference.any, .finger])
    func `a finger signs with eight commands where a PIN would do too, and nine where one is asked for`(
        _ preference: PresencePreference
    ) async throws {
        try await Scene.withBroker(.matches) { wire, keystore, broker in
            let key = try await Scene.key(
                keystore, .userPresence, ScriptedPresence([.pin("123456")], broker: broker))
            wire.forget()
            try await Scene.sign(
                keystore, key, ScriptedPresence([.hesitate], broker: broker, preferring: preference))
            let status = preference == .any ? [TPMCommandCode.nvRead] : []
            #expect(
                wire.codes == status + [
                    .startAuthSession, .contextSave, .load, .contextLoad, .policySigned, .policyOR, .sign,
                    .flushContext,
                ])
        }
    }

    @Test func `the first key of a fresh TPM makes the storage root key, once`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.key(keystore)
        #expect(
            wire.codes == [
                .readPublic, .createPrimary, .getCapability, .evictControl, .flushContext, .startAuthSession, .create,
            ])
    }
}
