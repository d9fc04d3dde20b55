import Glibc
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

/// The number of TPM commands of each operation.
@Suite(.softwareTPM)
struct CommandBudgetTests {
    @Test func `the first signature of a process takes five commands`() async throws {
        let wire = Wire()
        let anchors = MemoryTrustAnchors()
        let tpm = try SoftwareTPM.current
        let first = wire.keystore(tpm, anchors: anchors)
        let key = try await Scene.key(first)
        try await Scene.sign(first, key)
        wire.forget()
        let unattended = ScriptedPresence([.pin("123456")], isInteractive: false)
        try await Scene.sign(wire.keystore(tpm, anchors: anchors), key, unattended)
        #expect(wire.codes == [.getCapability, .startAuthSession, .load, .sign, .flushContext])
    }

    /// Without a resource manager, ReadPublic finds another TPM before the first prompt.
    @Test func `a prompt adds one command to the first signature of a process, and none later`()
        async throws
    {
        let wire = Wire()
        let anchors = MemoryTrustAnchors()
        let tpm = try SoftwareTPM.current
        let key = try await Scene.key(wire.keystore(tpm, anchors: anchors))
        let keystore = wire.keystore(tpm, anchors: anchors)
        wire.forget()
        try await Scene.sign(keystore, key)
        let signing: [TPMCommandCode] = [.startAuthSession, .load, .sign, .flushContext]
        // The simulator asks for the first use of a PIN again.
        #expect(Array(wire.codes.prefix(5)) == [.getCapability, .readPublic] + signing.prefix(3))
        wire.forget()
        try await Scene.sign(keystore, key)
        #expect(wire.codes == [.getCapability] + signing)
    }

    @Test func `with a resource manager, only Sign and FlushContext follow the PIN prompt`()
        async throws
    {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current, isShared: true)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        wire.forget()
        let presence = ScriptedPresence([.hesitate, .decline, .pin("654321"), .pin("123456")])
        let waiting = Task { () async -> KeystoreError? in
            await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
        }
        while presence.requests.isEmpty { await Task.yield() }
        #expect(wire.codes == [.getCapability, .startAuthSession, .load])
        waiting.cancel()
        #expect(await waiting.value?.code == .cancelled)
        try Scene.expectNothingLoaded("after a cancelled prompt")
        for (code, comment) in [
            (KeystoreError.Code.cancelled, "declined"), (.wrongProof, "after a wrong PIN"),
        ] {
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

    @Test(arguments: [false, true])
    func `a signature stays on the TPM's thread from its first command to its result`(
        _ isShared: Bool
    ) async throws {
        let (wire, presence) = (Wire(), ThreadRecorder())
        let keystore = wire.keystore(try SoftwareTPM.current, isShared: isShared)
        let key = try await Scene.key(keystore)
        wire.replace { _, command in
            presence.note()
            return command
        }
        _ = try await keystore.sign(
            Scene.digest, with: key, for: Scene.prompt, authorizedBy: presence)
        // A simulator asks for the first use of a PIN again.
        #expect(presence.threads.count >= 6, "five commands and the prompt")
        #expect(Set(presence.threads).count == 1)
    }

    /// As for a key that only a finger opens (``FingerPolicyTests``). If the program can prompt for
    /// the PIN, NV_Read gets the attempts left.
    @Test(arguments: [PresencePreference.any, .finger])
    func `with a policy of finger or PIN, a finger takes eight commands, or nine with a PIN prompt`(
        _ preference: PresencePreference
    ) async throws {
        try await Scene.withBroker(.matches) { wire, keystore, broker in
            let key = try await Scene.key(
                keystore, .userPresence, ScriptedPresence([.pin("123456")], broker: broker))
            wire.forget()
            try await Scene.sign(
                keystore, key, ScriptedPresence([.hesitate], broker: broker, preferring: preference)
            )
            let status = preference == .any ? [TPMCommandCode.nvRead] : []
            #expect(
                wire.codes == status + [
                    .startAuthSession, .contextSave, .load, .contextLoad, .policySigned, .policyOR,
                    .sign,
                    .flushContext,
                ])
        }
    }

    @Test func `the first key in a new TPM also creates the storage root key`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.key(keystore)
        #expect(
            wire.codes == [
                .readPublic, .createPrimary, .getCapability, .evictControl, .flushContext,
                .startAuthSession, .create,
            ])
    }
}

/// Enters the PIN, and records the threads of prompts and commands.
private final class ThreadRecorder: PresenceAuthority {
    private let noted = Mutex<[pthread_t]>([])

    var threads: [pthread_t] { noted.withLock { $0 } }

    func note() { noted.withLock { $0.append(pthread_self()) } }

    nonisolated(nonsending) func pin(_ request: PINRequest) async throws(KeystoreError) -> PINAnswer
    {
        note()
        return .pin(try PIN("123456"))
    }
}
