import Crypto
import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyTPM
@testable import TPM2

/// Revocable keys: after a revocation, no earlier copy signs.
@Suite(.softwareTPM)
struct RevocableKeyTests {
    private func keystore() throws -> TPMKeystore {
        TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
    }

    private func key(
        _ keystore: TPMKeystore, _ policy: AccessPolicy = .pin, pin: String = "123456"
    ) async throws -> HardwareKey {
        try await keystore.createRevocableKey(
            KeyRequest(policy: policy, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: pin)
        ) { _ in }
    }

    private func index(_ key: HardwareKey) throws -> NVIndex {
        try RevocableSecret(#require(key.authorization).blob).index
    }

    private func indices() throws -> [TPMHandle] {
        try Scene.look {
            try $0.handles(from: TPMHandle(rawValue: RevocableSecret.indices.lowerBound))
        }
        .filter { RevocableSecret.indices.contains($0.rawValue) }
    }

    /// The code of the error, and the TPM's own.
    private func refusal(
        _ keystore: TPMKeystore, _ key: HardwareKey, pin: String = "123456"
    ) async -> (code: KeystoreError.Code?, rawCode: UInt32?) {
        let error = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key, pin: pin)
        }
        return (error?.code, error?.underlying?.rawCode)
    }

    /// Expects a refusal without a prompt.
    private func expectRefused(
        _ keystore: TPMKeystore, _ policy: AccessPolicy, _ presence: ScriptedPresence
    ) async {
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.createRevocableKey(
                KeyRequest(policy: policy, prompt: Scene.prompt), authorizedBy: presence
            ) { _ in }
        }
        #expect(error?.code == .unsupported)
        #expect(presence.requests.isEmpty)
    }

    // MARK: The budget

    /// Six commands of a signature with a PIN follow the prompt. The two before it read the count
    /// of wrong PINs, and find an index that is gone or another one, which would count the right
    /// PIN as a wrong one.
    @Test(arguments: [AccessPolicy.none, .pin])
    func
        `creating takes eight commands, and the first signature of a process five; with a PIN 15, and six after its prompt`(
            _ policy: AccessPolicy
        ) async throws
    {
        let wire = Wire()
        let anchors = MemoryTrustAnchors()
        let keystore = wire.keystore(try SoftwareTPM.current, anchors: anchors)
        _ = try await Scene.sign(keystore, try await Scene.key(keystore))
        wire.forget()
        let key = try await key(keystore, policy)
        let writing: [TPMCommandCode] =
            policy == .pin
            ? [
                .nvDefineSpace, .startAuthSession, .loadExternal, .policySigned, .flushContext,
                .policyOR, .nvWrite,
                .startAuthSession, .nvRead,
            ] : [.nvDefineSpace, .nvWrite]
        #expect(
            wire.codes == [.getCapability, .readPublic, .getCapability, .startAuthSession] + writing
                + [
                    .startAuthSession, .create,
                ])
        wire.forget()
        try await Scene.sign(wire.keystore(try SoftwareTPM.current, anchors: anchors), key)
        let signing: [TPMCommandCode] =
            policy == .pin
            ? [
                .getCapability, .nvReadPublic, .startAuthSession, .startAuthSession, .policySecret,
                .load, .sign, .flushContext,
            ] : [.startAuthSession, .load, .nvRead, .sign, .flushContext]
        #expect(wire.codes == signing)
        wire.forget()
        try await keystore.delete(key)
        #expect(wire.codes == [.nvReadPublic, .startAuthSession, .nvUndefineSpace])
        try Scene.expectNothingLoaded("at the end")
    }

    @Test func `with a resource manager, a signature takes the same commands`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current, isShared: true)
        let key = try await key(keystore)
        #expect(await refusal(keystore, key, pin: "000000") == (.wrongProof, 0x98e))
        try Scene.expectNothingLoaded("after a wrong PIN")
        wire.forget()
        try await Scene.sign(keystore, key)
        #expect(
            wire.codes == [
                .getCapability, .nvReadPublic, .startAuthSession, .startAuthSession, .policySecret,
                .load, .sign, .flushContext,
            ])
        try Scene.expectNothingLoaded("after a signature")
        try await keystore.delete(key)
        #expect(await refusal(keystore, key) == (.invalidated, 0x18b))
        try Scene.expectNothingLoaded("after a refusal")
    }

    @Test func `an interrupted PIN change of several keys is completed, with one wrong PIN`()
        async throws
    {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        var keys: [HardwareKey] = []
        for _ in 0..<5 { keys.append(try await key(keystore)) }
        // They are changed from the last to the first: four are, and one is not.
        _ = try await keystore.changePIN(
            of: Array(keys.dropFirst()), secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "new one"))
        _ = try await keystore.changePIN(
            of: keys, secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "new one"))
        #expect(
            try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) } == [
                .lockoutCounter: 1
            ])
        for key in keys { try await Scene.sign(keystore, key, pin: "new one") }
    }

    @Test func `a PIN change of keys with different PINs leaves one attempt, and changes nothing`()
        async throws
    {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let keys = [try await key(keystore), try await key(keystore)]
        _ = try await keystore.changePIN(
            of: [keys[1]], secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "another"))
        _ = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, keys[0], ScriptedPresence(pins: "wrong one"))
        }
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.changePIN(
                of: keys, secrets: [], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "123456", "new one"))
        }
        #expect(error?.code == .wrongProof)
        #expect(error?.attemptsLeft == 1)
        try await Scene.sign(keystore, keys[0], pin: "123456")
        try await Scene.sign(keystore, keys[1], pin: "another")
    }

    @Test func `a use of a deleted key is not counted as a wrong PIN, even if its index is in use`()
        async throws
    {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let old = try await key(keystore)
        try await keystore.delete(old)
        let other = try await key(keystore)
        let presence = ScriptedPresence(pins: "123456")
        let error = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, old, presence)
        }
        #expect(error?.code == .invalidated)
        #expect(presence.requests.isEmpty)
        #expect(
            try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) } == [
                .lockoutCounter: 0
            ])
        try await Scene.sign(keystore, other)
    }

    @Test
    func `its PIN and the authValue of its index are not readable on the bus or in the store`()
        async throws
    {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let key = try await key(keystore)
        try await Scene.sign(keystore, key)
        let kept = try #require(try keystore.authorization(of: key, TPMKeyBlob(key.blob)))
        let root = try await keystore.root(named: kept.parentName)
        let pinValue = try kept.authValue(PIN("123456"))
        let value = pinValue.key.withUnsafeBytes { Array($0) }
        #expect(value.count > 16)
        #expect(!wire.bytes.contains(value))
        #expect(
            !Array(try JSONEncoder().encode(key)).contains(value)
                && !Array(key.blob).contains(value))
        #expect(wire.bytes.contains(kept.index.publicArea.authPolicy), "the control")
        let content = try Scene.look { try $0.readSecret(kept, pinValue, under: root) }
        #expect(
            content.withUnsafeBytes { Array($0) } == [UInt8](repeating: 0, count: 8),
            "there is no secret in it")
    }

    @Test func `nobody can write its index again, and the public area of the key shows the PIN`()
        async throws
    {
        let keystore = try keystore()
        let key = try await key(keystore)
        let index = try index(key)
        #expect(index.publicArea.attributes.rawValue == 0x2004_0008)
        let code = Scene.code {
            try Scene.look { tpm in
                try tpm.execute(NVWrite(SensitiveData([UInt8](repeating: 1, count: 8)), to: index))
            }
        }
        #expect(code == 0x12f, "TPM_RC_AUTH_UNAVAILABLE")
        let area = try TPMKeyBlob(key.blob).key.publicArea
        #expect(area.attributes.rawValue == 0x0004_0432)
        let pin = PolicyDigest().secret(
            of: index.name, policyRef: PresenceReference.pin(under: .pin))
        #expect(area.authPolicy == pin.bytes)
        #expect(keystore.isAttestable(key))
    }

    // MARK: Copies

    @Test func `a PIN change does not change the key, and no copy accepts the old PIN`()
        async throws
    {
        let keystore = try keystore()
        let copied = try await key(keystore)
        let changed = try await keystore.changePIN(
            of: [copied], secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "654321"))
        #expect(changed.keys == [copied])
        #expect(await refusal(keystore, copied) == (.wrongProof, 0x98e), "TPM_RC_AUTH_FAIL")
        try await Scene.sign(keystore, copied, pin: "654321")
        try Scene.expectNothingLoaded("after the refusal")
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `no copy of a deleted key signs, with any PIN`(_ policy: AccessPolicy) async throws {
        let keystore = try keystore()
        let copied = try await key(keystore, policy)
        try await Scene.sign(keystore, copied)
        try await keystore.delete(copied)
        #expect(try indices().isEmpty)
        #expect(
            await refusal(keystore, copied) == (.invalidated, 0x18b),
            "TPM_RC_HANDLE of the first handle")
        try Scene.expectNothingLoaded("after the refusal")
    }

    /// The store does not contain the key's authorization, so no edit of the store signs.
    @Test func `a key without its index, or with another key's index, does not sign`() async throws
    {
        let keystore = try keystore()
        let (mine, other) = (try await key(keystore), try await key(keystore))
        let (open, plain) = (try await key(keystore, .none), try await Scene.key(keystore))
        #expect(await refusal(keystore, mine.withoutAuthorization).code == .damaged)
        #expect(await refusal(keystore, edited(plain, mine.authorization)).code == .damaged)
        #expect(await refusal(keystore, edited(mine, open.authorization)).code == .damaged)
        #expect(await refusal(keystore, edited(mine, other.authorization)).code == .damaged)
        #expect(await refusal(keystore, open.withoutAuthorization).code == .damaged)
        var blob = try TPMKeyBlob(open.blob)
        blob.protection = .open
        let claimed = edited(open, nil, blob: try blob.serialized)
        #expect(await refusal(keystore, claimed).rawCode == 0x9a2, "the TPM refuses it too")
        for key in [mine, other, open, plain] { try await Scene.sign(keystore, key) }
    }

    private func edited(
        _ key: HardwareKey, _ authorization: SealedSecret?, blob: Data? = nil
    ) -> HardwareKey {
        HardwareKey(
            id: key.id, backend: key.backend, policy: key.policy, assurance: key.assurance,
            publicKey: key.publicKey,
            label: key.label, createdAt: key.createdAt, blob: blob ?? key.blob,
            authorization: authorization)
    }

    // MARK: The PIN

    @Test func `wrong PINs are counted and reported as for other keys`() async throws {
        let keystore = try keystore()
        var told: [KeystoreError] = []
        let key = try await key(keystore)
        for key in [try await Scene.key(keystore), key] {
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, pin: "000000")
            }
            told.append(try #require(error))
        }
        #expect(told.map(\.code) == [.wrongProof, .wrongProof])
        #expect(told.map { $0.underlying?.rawCode } == [0x98e, 0x98e])
        let left = try #require(told[0].attemptsLeft)
        #expect(told[1].attemptsLeft == left - 1)
        for _ in 1..<left { _ = await refusal(keystore, key, pin: "000000") }
        let presence = ScriptedPresence(pins: "123456")
        let locked = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key, presence)
        }
        #expect(locked?.code == .lockedOut && locked?.attemptsLeft == 0)
        #expect(presence.requests.isEmpty, "no prompt during a lockout")
        try await keystore.delete(key)
        #expect(try indices().isEmpty, "it can still be revoked")
    }

    /// As after a crash between two of them.
    @Test func `an interrupted PIN change is completed`() async throws {
        let keystore = try keystore()
        let keys = [
            try await key(keystore), try await key(keystore), try await Scene.key(keystore),
        ]
        _ = try await keystore.changePIN(
            of: [keys[1]], secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "654321"))
        let changed = try await keystore.changePIN(
            of: keys, secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "654321"))
        for key in changed.keys { try await Scene.sign(keystore, key, pin: "654321") }
        #expect(await refusal(keystore, keys[0]).code == .wrongProof)
        #expect(
            await refusal(keystore, keys[2]).code == nil,
            "the control: a copy of a key that is not revocable")
    }

    @Test func `a wrong old PIN counts once and changes nothing`() async throws {
        let keystore = try keystore()
        let keys = [try await key(keystore), try await key(keystore)]
        let before = try #require(try await keystore.pinStatus().attemptsLeft)
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.changePIN(
                of: keys, secrets: [], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "000000", "654321"))
        }
        #expect(error?.code == .wrongProof && error?.underlying?.rawCode == 0x98e)
        #expect(error?.attemptsLeft == before - 1)
        for key in keys { try await Scene.sign(keystore, key) }
    }

    // MARK: Creation

    @Test func `a failed creation leaves no index`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.key(keystore)
        wire.tamper { code, response in
            // TPM_RC_FAILURE.
            code == .create ? [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x01, 0x01] : response
        }
        let error = await Scene.error { () async throws(KeystoreError) in
            do { _ = try await key(keystore) } catch let error as KeystoreError {
                throw error
            } catch {}
        }
        #expect(error?.underlying?.rawCode == 0x101)
        #expect(try indices().isEmpty)
    }

    @Test func `a key is not created if willCreate throws, and revoking it is no error`()
        async throws
    {
        let keystore = try keystore()
        let recorded = Mutex<SealedSecret?>(nil)
        await #expect(throws: KeystoreError.cancelled("test")) {
            _ = try await keystore.createRevocableKey(
                KeyRequest(policy: .pin, prompt: Scene.prompt),
                authorizedBy: ScriptedPresence(pins: "123456")
            ) { (secret) async throws(KeystoreError) in
                recorded.withLock { $0 = secret }
                throw .cancelled("test")
            }
        }
        #expect(try indices().isEmpty)
        try await keystore.revoke(#require(recorded.withLock { $0 }))
    }

    @Test(arguments: [AccessPolicy.biometryAny, .userPresence])
    func `a policy with a fingerprint is refused without a prompt`(_ policy: AccessPolicy)
        async throws
    {
        let presence = ScriptedPresence(pins: "123456")
        let keystore = try keystore()
        await expectRefused(keystore, policy, presence)
        #expect(try indices().isEmpty)
    }

    @Test func `with a PIN that the broker manages, creation is refused without a prompt`()
        async throws
    {
        try await Scene.withBroker(.matches) { _, keystore, broker in
            let presence = ScriptedPresence([.pin("123456")], broker: broker)
            await expectRefused(keystore, .pin, presence)
        }
    }

    @Test(.requires(program: "tpm2_changeauth"))
    func `with an owner password, creation is refused and existing keys still work`() async throws {
        let keystore = try keystore()
        let standing = try await key(keystore)
        try await SystemProgram("tpm2_changeauth").require([
            "-T", SoftwareTPM.current.tcti, "-c", "owner", "secret",
        ])
        let presence = ScriptedPresence(pins: "123456")
        await expectRefused(keystore, .pin, presence)
        try await Scene.sign(keystore, standing)
    }

    // MARK: Attestation and deletion

    @Test func `a revocable key can be attested, stored and loaded`() async throws {
        let keystore = try keystore()
        let key = try await key(keystore)
        let stored = try JSONDecoder().decode(HardwareKey.self, from: JSONEncoder().encode(key))
        #expect(stored == key)
        try await Scene.sign(keystore, stored)
        let challenge = Data(SecretBytes.random(count: 16).withUnsafeBytes { Array($0) })
        #expect(try await !keystore.attest(stored, challenge: challenge).statement.isEmpty)
    }

    @Test func `another TPM reports the wrong device, not a deletion`() async throws {
        let keystore = try keystore()
        let key = try await key(keystore)
        try await SoftwareTPM.withRunning { tpm in
            let other = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
            _ = try await Scene.key(other)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await other.delete(key)
            }
            #expect(error?.code == .wrongDevice)
        }
        try await Scene.sign(keystore, key)
    }
}
