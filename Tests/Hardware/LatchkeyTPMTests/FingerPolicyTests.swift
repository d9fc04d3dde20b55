import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@testable import LatchkeyTPM

/// Keys that a finger opens, with the broker's key in this process and a scripted finger.
@Suite(.softwareTPM)
struct FingerPolicyTests {
    @Test func `without a resource manager a finger takes seven commands, without a PIN prompt`()
        async throws
    {
        try await Scene.withBroker(.matches, .matches) { wire, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let key = try await Scene.key(keystore, .biometryAny, presence)
            #expect(key.assurance.presence == .finger)
            #expect(key.assurance.pinProtection == nil)
            try await Scene.sign(keystore, key, presence)
            wire.forget()
            try await Scene.sign(keystore, key, presence)
            #expect(
                wire.codes == [
                    .startAuthSession, .contextSave, .load, .contextLoad, .policySigned, .sign,
                    .flushContext,
                ])
            #expect(broker.requests.last?.use == .sign(Scene.digest))
            #expect(presence.requests.isEmpty)
        }
    }

    @Test func `with a resource manager, two commands and FlushContext follow the finger`()
        async throws
    {
        try await Scene.withBroker(.stays, .differs, .matches) { wire, _, broker in
            let keystore = wire.keystore(try SoftwareTPM.current, isShared: true)
            let presence = ScriptedPresence([], broker: broker)
            let key = try await Scene.key(keystore, .biometryAny, presence)
            wire.forget()
            let waiting = Task { () async -> KeystoreError? in
                await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, presence)
                }
            }
            while broker.requests.isEmpty { await Task.yield() }
            #expect(wire.codes == [.startAuthSession, .load])
            waiting.cancel()
            #expect(await waiting.value?.code == .cancelled)
            try Scene.expectNothingLoaded("after a cancelled prompt")
            let other = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(other?.code == .wrongProof)
            try Scene.expectNothingLoaded("after another finger")
            wire.forget()
            try await Scene.sign(keystore, key, presence)
            #expect(
                wire.codes == [
                    .startAuthSession, .load, .policySigned, .sign, .flushContext,
                ])
        }
    }

    @Test func `a finger unseals a secret, and the response is encrypted`() async throws {
        try await Scene.withBroker(.matches) { wire, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let bytes = SecretBytes.random(count: 32)
            let secret = try await keystore.seal(
                bytes, policy: .biometryAny, for: Scene.prompt, authorizedBy: presence)
            wire.forget()
            #expect(
                try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
                    == bytes)
            let isInTheClear = bytes.withUnsafeBytes { bytes in
                wire.bytes.firstRange(of: Array(bytes)) != nil
            }
            #expect(!isInTheClear)
        }
    }

    @Test func `a wrong finger, no finger and another user's approval are refused`() async throws {
        try await Scene.withBroker(.differs, .approvesFor(1001)) { _, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let key = try await Scene.key(keystore, .biometryAny, presence)
            let other = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(other?.code == .wrongProof)
            let stranger = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, presence)
            }
            #expect(stranger?.underlying?.rawCode == 0x5db)
            let waiting = Task { () async -> KeystoreError? in
                await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, presence)
                }
            }
            while broker.requests.count < 3 { await Task.yield() }
            waiting.cancel()
            #expect(await waiting.value?.code == .cancelled)
        }
    }

    @Test func `without a broker, fingerprint keys cannot be created or used`() async throws {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            for policy in [AccessPolicy.userPresence, .biometryAny, .biometryCurrentSet] {
                let error = await Scene.error { () async throws(KeystoreError) in
                    _ = try await keystore.createKey(
                        KeyRequest(policy: policy, prompt: Scene.prompt), authorizedBy: Scene.nobody
                    )
                }
                #expect(error?.code == .unavailable)
            }
            let key = try await Scene.key(
                keystore, .biometryAny, ScriptedPresence([], broker: broker))
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, Scene.nobody)
            }
            #expect(error?.code == .unavailable)
        }
    }

    @Test func `changed fingers permanently invalidate a key of the current set, and no other key`()
        async throws
    {
        try await Scene.withBroker(.matches, .matches, .matches) { wire, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let bound = try await Scene.key(keystore, .biometryCurrentSet, presence)
            let free = try await Scene.key(keystore, .biometryAny, presence)
            wire.forget()
            try await Scene.sign(keystore, bound, presence)
            #expect(wire.codes.contains(.policyNV))
            broker.enrol(2)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, bound, presence)
            }
            #expect(error?.code == .invalidated)
            try await Scene.sign(keystore, free, presence)
            broker.enrol(1)
            let late = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, bound, presence)
            }
            #expect(late?.code == .invalidated, "the same set, enrolled again, is another set")
            let lying = BlindBroker(broker)
            let refused = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, bound, ScriptedPresence([], broker: lying))
            }
            #expect(refused?.code == .invalidated)
            #expect(
                refused?.underlying?.rawCode == 0x126,
                "the TPM itself refuses, whatever the broker says")
        }
    }

    @Test func `a finger is valid for the reuse time, by the TPM's clock`() async throws {
        try await Scene.withBroker(.matches, .matches, .matches) { wire, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let policy = try #require(AccessPolicy(.biometryAny, reuseSeconds: 300))
            let key = try await Scene.key(keystore, policy, presence)
            try await Scene.sign(keystore, key, presence)
            wire.forget()
            try await Scene.sign(keystore, key, presence)
            #expect(
                wire.codes == [
                    .startAuthSession, .policyTicket, .load, .policyAuthValue, .sign,
                    .flushContext,
                ])
            #expect(broker.requests.count == 1)

            let brief = try await Scene.key(
                keystore, #require(AccessPolicy(.biometryAny, reuseSeconds: 9)), presence)
            try await Scene.sign(keystore, brief, presence)
            let end = try Scene.look { try $0.execute(ReadClock()).time } + 11_500
            while try Scene.look({ try $0.execute(ReadClock()).time }) < end {
                try await Task.sleep(for: .milliseconds(50))
            }
            try await Scene.sign(keystore, brief, presence)
            #expect(broker.requests.count == 3, "the TPM no longer accepted the ticket")
        }
    }

    /// Their policies are equal.
    @Test func `during the reuse time, a finger for a signature opens no secret`() async throws {
        try await Scene.withBroker(.matches, .matches) { _, keystore, broker in
            let presence = ScriptedPresence([], broker: broker)
            let policy = try #require(AccessPolicy(.biometryAny, reuseSeconds: 60))
            let key = try await Scene.key(keystore, policy, presence)
            let secret = try await keystore.seal(
                .random(count: 32), policy: policy, for: Scene.prompt, authorizedBy: presence)
            let areas = [try TPMKeyBlob(key.blob), try TPMKeyBlob(secret.blob)].map {
                $0.key.publicArea.authPolicy
            }
            #expect(areas[0] == areas[1])
            for _ in 0..<2 { try await Scene.sign(keystore, key, presence) }
            #expect(broker.requests.count == 1)
            for _ in 0..<2 {
                _ = try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence)
            }
            #expect(broker.requests.map(\.use) == [.sign(Scene.digest), .unseal])
        }
    }

    /// A reusable proof names no command, so the session's HMAC must bind it.
    @Test(arguments: [AccessPolicy.Requirement.biometryAny, .userPresence])
    func `during the reuse time, an attacker on the bus gets no signature of another digest`(
        _ requirement: AccessPolicy.Requirement
    ) async throws {
        try await Scene.withBroker(.matches, .matches) { wire, keystore, broker in
            let policy = try #require(AccessPolicy(requirement, reuseSeconds: 60))
            let presence =
                policy.hasPIN
                ? ScriptedPresence(
                    Array(repeating: .pin("123456"), count: 3), broker: broker, preferring: .pin)
                : ScriptedPresence([], broker: broker)
            let key = try await Scene.key(keystore, policy, presence)
            let other = MessageDigest(sha256: Array("another message".utf8)).bytes
            func steal() async -> UInt32? {
                wire.forget()
                wire.replace { code, command in
                    guard code == .sign, let digest = command.firstRange(of: Scene.digest.bytes)
                    else { return command }
                    return Array(
                        command[..<digest.lowerBound] + other + command[digest.upperBound...])
                }
                defer { wire.replace { $1 } }
                let error = await Scene.error { () async throws(KeystoreError) in
                    try await Scene.sign(keystore, key, presence)
                }
                #expect(
                    wire.exchanges.last { $0.code == .sign }?.response.count == 10,
                    "a bare code, no signature")
                return error?.underlying?.rawCode
            }
            #expect(await steal() == 0x9a2)
            try await Scene.sign(keystore, key, presence)
            #expect(await steal() == 0x9a2)
            #expect(wire.codes.contains(.policyTicket))
        }
    }

    @Test func `a restarted broker finds its key, and a client loads a missing key`() async throws {
        let tpm = try SoftwareTPM.current
        try await TemporaryDirectory.withDirectory { directory in
            let first = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
            let wire = Wire()
            let keystore = wire.keystore(tpm)
            let key = try await Scene.key(
                keystore, .biometryAny, ScriptedPresence([], broker: InProcessBroker(first, [])))
            try await tpm.restart()
            let again = try await ApprovalAuthority(tcti: tpm.tcti, directory: directory.path)
            let broker = InProcessBroker(again, [.matches, .matches])
            let presence = ScriptedPresence([], broker: broker)
            try await Scene.sign(keystore, key, presence)
            try Scene.look { tpm in
                let persistent = try tpm.handles(from: .persistentFirst).filter {
                    $0 != .storageRootKey
                }
                for handle in persistent {
                    try tpm.execute(EvictControl(try tpm.execute(ReadPublic(handle)), at: handle))
                }
                #expect(persistent.count == 1)
            }
            wire.forget()
            try await Scene.sign(keystore, key, presence)
            #expect(wire.codes.contains(.loadExternal))
            try Scene.expectNothingLoaded("after both")
        }
    }
}

/// A broker that always returns the terms under which a key was created.
private final class BlindBroker: ApprovalService {
    private let inner: InProcessBroker

    init(_ inner: InProcessBroker) { self.inner = inner }

    func fingerState() async -> FingerState { .ready }
    func makeUserPIN() async throws(KeystoreError) -> UnsetUserPIN { try await inner.makeUserPIN() }
    func approve(_ request: ApprovalRequest) async throws(KeystoreError) -> ApprovalAnswer {
        inner.show(.matches)
        return try await inner.approve(request)
    }
    func terms(for policy: AccessPolicy) async throws(KeystoreError) -> PresenceTerms {
        var terms = try await inner.terms(for: policy)
        // The counter of the first key is 1 below each change since.
        if let counter = terms.counter {
            terms.counter = PresenceTerms.Counter(
                publicArea: counter.publicArea, value: counter.value - 2)
        }
        return terms
    }
}
