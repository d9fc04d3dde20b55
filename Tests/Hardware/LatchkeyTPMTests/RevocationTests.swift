import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import TPM2
import Testing

@testable import LatchkeyTPM

/// Revocable secrets: after a revocation, no earlier copy opens.
@Suite(.softwareTPM)
struct RevocationTests {
    private let bytes = SecretBytes.random(count: 32)

    private func keystore() throws -> TPMKeystore {
        TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
    }

    private func seal(
        _ keystore: TPMKeystore, _ policy: AccessPolicy = .none, _ presence: ScriptedPresence? = nil
    ) async throws -> SealedSecret {
        try await keystore.sealRevocably(
            bytes, policy: policy, for: Scene.prompt,
            authorizedBy: presence ?? ScriptedPresence(pins: "123456")
        ) { _ in }
    }

    private func open(
        _ keystore: TPMKeystore, _ secret: SealedSecret, pin: String = "123456",
        _ presence: ScriptedPresence? = nil
    ) async throws(KeystoreError) -> SecretBytes {
        try await keystore.unseal(
            secret, for: Scene.prompt, authorizedBy: presence ?? ScriptedPresence(pins: pin))
    }

    private func index(_ secret: SealedSecret) throws -> NVIndex {
        try RevocableSecret(secret.blob).index
    }

    /// The code of the error, and the TPM's own.
    private func refusal(
        _ keystore: TPMKeystore, _ secret: SealedSecret, pin: String = "123456"
    ) async -> (code: KeystoreError.Code?, rawCode: UInt32?) {
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await open(keystore, secret, pin: pin)
        }
        return (error?.code, error?.underlying?.rawCode)
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `without its index a secret does not open`(_ policy: AccessPolicy) async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore, policy)
        #expect(try await open(keystore, secret) == bytes)
        try await keystore.revoke(secret)
        #expect(await refusal(keystore, secret) == (.invalidated, 0x18b))
        try Scene.expectNothingLoaded("after the refusal")
    }

    @Test(arguments: [AccessPolicy.biometryAny, .userPresence])
    func `a policy with a fingerprint is refused without a prompt`(_ policy: AccessPolicy)
        async throws
    {
        let keystore = try keystore()
        let presence = ScriptedPresence(pins: "123456")
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.sealRevocably(
                bytes, policy: policy, for: Scene.prompt, authorizedBy: presence
            ) {
                _ in
            }
        }
        #expect(error?.code == .unsupported)
        #expect(presence.requests.isEmpty)
        #expect(try indices().isEmpty)
    }

    // MARK: The PIN

    @Test func `wrong PINs are counted and reported as for other secrets`() async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore, .pin)
        let plain = try await keystore.seal(
            bytes, policy: .pin, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        var told: [KeystoreError] = []
        for secret in [plain, secret] {
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await open(keystore, secret, pin: "000000")
            }
            told.append(try #require(error))
        }
        #expect(told.map(\.code) == [.wrongProof, .wrongProof])
        #expect(told.map { $0.underlying?.rawCode } == [0x98e, 0x98e], "TPM_RC_AUTH_FAIL")
        let left = try #require(told[0].attemptsLeft)
        #expect(told[1].attemptsLeft == left - 1)
        #expect(try await keystore.pinStatus(of: .secret(secret)).attemptsLeft == left - 1)
        for _ in 1..<left { _ = await refusal(keystore, secret, pin: "000000") }

        let presence = ScriptedPresence(pins: "123456")
        let locked = await Scene.error { () async throws(KeystoreError) in
            _ = try await open(keystore, secret, presence)
        }
        #expect(locked?.code == .lockedOut && locked?.attemptsLeft == 0)
        #expect(presence.requests.isEmpty, "no prompt during a lockout")
        let revocable = try RevocableSecret(secret.blob)
        let root = try await keystore.root(named: revocable.parentName)
        let right = try revocable.authValue(PIN("123456"))
        let error = #expect(throws: TPMError.self) {
            _ = try Scene.look { try $0.readSecret(revocable, right, under: root) }
        }
        #expect(error?.responseCode?.rawValue == 0x921, "TPM_RC_LOCKOUT: the TPM itself refuses")
        // It can still be revoked.
        try await keystore.revoke(secret)
        #expect(try indices().isEmpty)
    }

    @Test func `a secret opens with the new PIN, and no copy with the old PIN`() async throws {
        let keystore = try keystore()
        let free = try await seal(keystore)
        let secret = try await seal(keystore, .pin)
        let plain = try await keystore.seal(
            bytes, policy: .pin, for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456"))
        let changed = try await keystore.changePIN(
            of: [], secrets: [free, secret, plain], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "654321"))
        #expect(
            Array(changed.secrets.prefix(2)) == [free, secret], "the PIN is changed in the TPM")
        for new in changed.secrets {
            #expect(try await open(keystore, new, pin: "654321") == bytes)
        }
        #expect(await refusal(keystore, secret) == (.wrongProof, 0x98e))
    }

    @Test func `a wrong old PIN changes nothing`() async throws {
        let keystore = try keystore()
        let first = try await seal(keystore, .pin)
        let other = try await seal(keystore, .pin, ScriptedPresence(pins: "222222"))
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.changePIN(
                of: [], secrets: [first, other], for: Scene.prompt,
                authorizedBy: ScriptedPresence(pins: "123456", "654321"))
        }
        #expect(error?.code == .wrongProof)
        #expect(error?.underlying?.rawCode == 0x98e)
        #expect(try await open(keystore, first) == bytes)
        #expect(try await open(keystore, other, pin: "222222") == bytes)
    }

    // MARK: The index

    /// An index that an attacker defines at the handle of a removed index.
    enum Forgery: CaseIterable {
        /// Of the same public area, and so of the same Name.
        case same
        /// Of another policy, with wrong proofs not counted, and counted.
        case uncounted, counted
    }

    /// With a PIN, an index of the same Name cannot be distinguished from one with another PIN.
    @Test(arguments: [
        (AccessPolicy.none, Forgery.same, KeystoreError.Code.unavailable, UInt32?(0x9a2)),
        (.none, .uncounted, .invalidated, 0x9a2), (.none, .counted, .invalidated, 0x98e),
        // With a PIN, the index is read before the prompt, so no attempt is counted.
        (.pin, .same, .wrongProof, 0x98e), (.pin, .uncounted, .invalidated, nil),
        (.pin, .counted, .invalidated, nil),
    ])
    func `another index at its handle does not open the secret`(
        _ policy: AccessPolicy, _ forgery: Forgery, _ code: KeystoreError.Code, _ rawCode: UInt32?
    ) async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore, policy)
        let index = try index(secret)
        try await keystore.revoke(secret)
        try Scene.look { tpm in
            let area = index.publicArea
            var attributes = area.attributes.subtracting([.written, .noDA])
            if forgery == .same ? area.attributes.contains(.noDA) : forgery == .uncounted {
                attributes.insert(.noDA)
            }
            let forged = try tpm.execute(
                NVDefineSpace(
                    NVPublicArea(
                        index: area.index, attributes: attributes,
                        authPolicy: forgery == .same
                            ? area.authPolicy : Array(repeating: 1, count: 32),
                        dataSize: 32)))
            try tpm.execute(
                NVWrite(SensitiveData(Array(repeating: UInt8(7), count: 32)), to: forged))
            #expect(
                (try tpm.execute(NVReadPublic(area.index)).name == index.name) == (forgery == .same)
            )
        }
        #expect(await refusal(keystore, secret) == (code, rawCode))
        try Scene.expectNothingLoaded("after the refusal")
        // An index of another program is not removed.
        if forgery != .same {
            try await keystore.revoke(secret)
            #expect(try indices() == [index.handle])
        }
    }

    @Test func `a secret that willCreate received can be revoked after a failure at any step`()
        async throws
    {
        let keystore = try keystore()
        let recorded = Mutex<SealedSecret?>(nil)
        let seal = { (isStopped: Bool) async throws(KeystoreError) -> SealedSecret in
            try await keystore.sealRevocably(
                bytes, policy: .none, for: Scene.prompt, authorizedBy: Scene.nobody
            ) {
                (secret) async throws(KeystoreError) in
                recorded.withLock { $0 = secret }
                if isStopped { throw .cancelled("test") }
            }
        }
        await #expect(throws: KeystoreError.cancelled("test")) { try await seal(true) }
        let unmade = try #require(recorded.withLock { $0 })
        #expect(try indices().isEmpty)
        try await keystore.revoke(unmade)
        // A crash between NV_DefineSpace and NV_Write.
        let revocable = try RevocableSecret(unmade.blob)
        _ = try Scene.look { tpm in
            try tpm.execute(
                NVDefineSpace(
                    RevocableSecret.unwritten(
                        revocable.branch, revocable.form, at: revocable.index.handle)))
        }
        #expect(try indices() == [revocable.index.handle])
        try await keystore.revoke(unmade)
        #expect(try indices().isEmpty)
        #expect(try await seal(false) == recorded.withLock { $0 })
    }

    @Test func `another program's index at the chosen handle is kept, and another handle is used`()
        async throws
    {
        let keystore = try keystore()
        let recorded = Mutex<[SealedSecret]>([])
        let secret = try await keystore.sealRevocably(
            bytes, policy: .none, for: Scene.prompt, authorizedBy: Scene.nobody
        ) { secret in
            let count = recorded.withLock { recorded in
                recorded.append(secret)
                return recorded.count
            }
            guard count == 1, let place = try? index(secret).handle else { return }
            _ = try? Scene.look { tpm in
                try tpm.execute(
                    NVDefineSpace(
                        NVPublicArea(
                            index: place, attributes: [.authRead, .authWrite], dataSize: 8)))
            }
        }
        let handles = try recorded.withLock { $0 }.map { try index($0).handle }
        #expect(Set(handles).count == 2)
        #expect(try indices() == handles.sorted { $0.rawValue < $1.rawValue })
        #expect(try await open(keystore, secret) == bytes)
    }

    @Test func `each secret has its own index with a unique Name`() async throws {
        let (first, second) = (try keystore(), try keystore())
        let (one, other) = (try await seal(first), try await seal(second))
        #expect(try index(one).handle != index(other).handle)
        try await first.revoke(one)
        #expect(try await open(second, other) == bytes)
        let again = try await seal(first)
        #expect(try index(again).handle == index(one).handle, "the place is free again")
        #expect(try index(again).name != index(one).name)
        // A revocation that is done once more after a crash must not meet the new one.
        try await first.revoke(one)
        #expect(try await open(first, again) == bytes)
    }

    @Test func `a full TPM is reported, and nothing is left in it`() async throws {
        let keystore = try keystore()
        let standing = try await seal(keystore)
        try Scene.look { tpm in
            var place: UInt32 = 0x0180_6000
            var size: UInt16 = 1024
            while size >= 1 {
                do throws(TPMError) {
                    try tpm.execute(
                        NVDefineSpace(
                            NVPublicArea(
                                index: TPMHandle(rawValue: place),
                                attributes: [.authRead, .authWrite, .noDA],
                                dataSize: size)))
                    place += 1
                } catch {
                    guard error.responseCode == .nvSpace else { throw error }
                    size /= 2
                }
            }
        }
        let before = try indices()
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.sealRevocably(
                bytes, policy: .none, for: Scene.prompt, authorizedBy: Scene.nobody
            ) { _ in }
        }
        #expect(error?.code == .unsupported)
        #expect(error?.underlying?.rawCode == 0x14b, "TPM_RC_NV_SPACE")
        #expect(try indices() == before)
        #expect(try await open(keystore, standing) == bytes)
        try Scene.expectNothingLoaded("after the refusal")
    }

    private func indices() throws -> [TPMHandle] {
        try Scene.look {
            try $0.handles(from: TPMHandle(rawValue: RevocableSecret.indices.lowerBound))
        }
        .filter { RevocableSecret.indices.contains($0.rawValue) }
    }

    @Test(.requires(program: "tpm2_changeauth"))
    func `with an owner password, sealing is refused without a prompt`() async throws {
        let keystore = try keystore()
        _ = try await Scene.key(keystore)
        #expect(try await keystore.capabilities().sealsRevocably)
        _ = try await tool("tpm2_changeauth", ["-c", "owner", "secret"])
        #expect(try await !keystore.capabilities().sealsRevocably)
        let presence = ScriptedPresence(pins: "123456")
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.sealRevocably(
                bytes, policy: .pin, for: Scene.prompt, authorizedBy: presence
            ) { _ in
            }
        }
        #expect(error?.code == .unsupported)
        #expect(presence.requests.isEmpty)
    }

    @Test(.requires(program: "tpm2_nvreadpublic"))
    func `tpm2-tools show the index, but neither they nor the owner can read it`() async throws {
        let secret = try await seal(try keystore())
        let handle = try index(secret).handle.description
        let text = try await tool("tpm2_nvreadpublic", [handle])
        #expect(text.output.contains("friendly: authwrite|authread|no_da|written"))
        #expect(text.output.contains("size: 32"))
        #expect(try await tool("tpm2_nvread", [handle, "-C", "o"]).status != 0)
        let byItself = try await tool("tpm2_nvread", [handle, "-C", handle])
        #expect(byItself.status != 0)
        #expect(byItself.text.lowercased().contains("0x9a2"), "TPM_RC_BAD_AUTH: \(byItself.output)")
    }

    @Test func `fields that do not match the stored bytes are damage`() async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore)
        let edited = SealedSecret(
            backend: secret.backend, policy: secret.policy, assurance: secret.assurance,
            blob: secret.blob)
        #expect(await refusal(keystore, edited).code == .damaged)
        let stored = try JSONDecoder().decode(SealedSecret.self, from: JSONEncoder().encode(secret))
        #expect(stored == secret)
    }

    @Test func `another TPM does not report a revocation`() async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore)
        try await SoftwareTPM.withRunning { tpm in
            let other = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
            _ = try await Scene.key(other)
            let error = await Scene.error { () async throws(KeystoreError) in
                try await other.revoke(secret)
            }
            #expect(error?.code == .wrongDevice)
        }
        #expect(try await open(keystore, secret) == bytes)
    }

    @Test func `neither the secret nor its authorization is readable on the bus`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let secret = try await seal(keystore)
        #expect(try await open(keystore, secret) == bytes)
        let revocable = try RevocableSecret(secret.blob)
        guard case .secret(let authValue) = revocable.form else {
            Issue.record("there is no stored authValue")
            return
        }
        let clear = bytes.withUnsafeBytes { Array($0) }
        for part in [authValue, clear] { #expect(!wire.bytes.contains(part)) }
        let stored = Array(secret.blob)
        #expect(stored.contains(authValue), "the control")
        #expect(!stored.contains(clear), "the stored record does not contain it")
    }

    private func tool(_ name: String, _ arguments: [String]) async throws -> SystemProgram.Outcome {
        try await SystemProgram(name).result(of: arguments + ["-T", SoftwareTPM.current.tcti])
    }
}
