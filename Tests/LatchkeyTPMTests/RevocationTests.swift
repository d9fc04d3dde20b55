import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTesting
import Subprocess
import TPM2
import Testing

@testable import LatchkeyTPM

/// What a TPM takes back opens for nobody, whatever was copied before.
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
            bytes, policy: policy, for: Scene.prompt, authorizedBy: presence ?? ScriptedPresence(pins: "123456"))
    }

    private func open(
        _ keystore: TPMKeystore, _ secret: SealedSecret, pin: String = "123456", _ presence: ScriptedPresence? = nil
    ) async throws(KeystoreError) -> SecretBytes {
        try await keystore.unseal(secret, for: Scene.prompt, authorizedBy: presence ?? ScriptedPresence(pins: pin))
    }

    private func half(_ secret: SealedSecret) throws -> RevocableHalf { try #require(try TPMKeyBlob(secret.blob).half) }

    /// The code of the error, and the TPM's own.
    private func refusal(
        _ keystore: TPMKeystore, _ secret: SealedSecret
    ) async -> (code: KeystoreError.Code?, rawCode: UInt32?) {
        let error = await Scene.error { () async throws(KeystoreError) in _ = try await open(keystore, secret) }
        return (error?.code, error?.underlying?.rawCode)
    }

    /// One command more than for another secret, to open and four more to seal.
    @Test(arguments: [AccessPolicy.none, .pin])
    func `it is sealed with eight commands and opened with five, or six with a PIN`(_ policy: AccessPolicy) async throws
    {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.sign(keystore, try await Scene.key(keystore))
        wire.forget()
        let secret = try await seal(keystore, policy)
        #expect(
            wire.codes == [
                .getCapability, .readPublic, .startAuthSession, .create, .startAuthSession, .getCapability,
                .nvDefineSpace, .nvWrite,
            ])
        wire.forget()
        #expect(try await open(keystore, secret) == bytes)
        let lockout = policy == .pin ? [.getCapability] : [TPMCommandCode]()
        #expect(wire.codes == lockout + [.startAuthSession, .load, .unseal, .nvRead, .flushContext])
        wire.forget()
        try await keystore.revoke(secret)
        #expect(wire.codes == [.nvReadPublic, .startAuthSession, .nvUndefineSpace])
        try Scene.expectNothingLoaded("at the end")
    }

    @Test(arguments: [AccessPolicy.none, .pin])
    func `without its index it is worth nothing`(_ policy: AccessPolicy) async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore, policy)
        #expect(try await open(keystore, secret) == bytes)
        try await keystore.revoke(secret)
        #expect(await refusal(keystore, secret) == (.invalidated, 0x18b))
        try Scene.expectNothingLoaded("after the refusal")
    }

    @Test func `under a policy session it opens and dies too`() async throws {
        try await Scene.withBroker(.matches, .matches) { _, keystore, broker in
            let presence = ScriptedPresence([.pin("123456"), .hesitate, .hesitate], broker: broker)
            let secret = try await seal(keystore, .userPresence, presence)
            #expect(try await open(keystore, secret, presence) == bytes)
            try await keystore.revoke(secret)
            let error = await Scene.error { () async throws(KeystoreError) in
                _ = try await open(keystore, secret, presence)
            }
            #expect(error?.code == .invalidated)
            #expect(error?.underlying?.rawCode == 0x18b)
            try Scene.expectNothingLoaded("at the end")
        }
    }

    /// Somebody makes an index in its place: of the same public area and so of the same Name, or another one.
    @Test(arguments: [true, false]) func `another index in its place opens nothing`(_ hasSameName: Bool) async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore)
        let half = try half(secret)
        try await keystore.revoke(secret)
        try Scene.look { tpm in
            let area = half.index.publicArea
            let forged = try tpm.nvDefineSpace(
                NVPublicArea(
                    index: area.index, attributes: [.authRead, .authWrite, .noDA],
                    authPolicy: hasSameName ? area.authPolicy : Array(repeating: 1, count: 32), dataSize: 32))
            try tpm.nvWrite(Array(repeating: UInt8(7), count: 32), to: forged, authorizedBy: .emptyPassword)
            #expect((try tpm.nvReadPublic(area.index).name == half.index.name) == hasSameName)
        }
        #expect(await refusal(keystore, secret) == (.invalidated, 0x9a2))
        // What is not its own is left alone.
        if !hasSameName {
            try await keystore.revoke(secret)
            #expect(try Scene.look { try $0.nvReadPublic(half.index.handle) }.handle == half.index.handle)
        }
    }

    @Test func `each secret has an index of its own, and a Name that no other has`() async throws {
        let (first, second) = (try keystore(), try keystore())
        let (one, other) = (try await seal(first), try await seal(second))
        #expect(try half(one).index.handle != half(other).index.handle)
        try await first.revoke(one)
        #expect(try await open(second, other) == bytes)
        let again = try await seal(first)
        #expect(try half(again).index.handle == half(one).index.handle, "the place is free again")
        #expect(try half(again).index.name != half(one).index.name)
        // A revocation that is done once more after a crash must not meet the new one.
        try await first.revoke(one)
        #expect(try await open(first, again) == bytes)
    }

    @Test func `a TPM that has no room says so, and keeps nothing`() async throws {
        let keystore = try keystore()
        let standing = try await seal(keystore)
        try Scene.look { tpm in
            var place: UInt32 = 0x0180_6000
            var size: UInt16 = 1024
            while size >= 1 {
                do throws(TPMError) {
                    try tpm.nvDefineSpace(
                        NVPublicArea(
                            index: TPMHandle(rawValue: place), attributes: [.authRead, .authWrite, .noDA],
                            dataSize: size))
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
                bytes, policy: .none, for: Scene.prompt, authorizedBy: Scene.nobody)
        }
        #expect(error?.code == .unavailable)
        #expect(error?.underlying?.rawCode == 0x14b)
        #expect(try indices() == before)
        #expect(try await open(keystore, standing) == bytes)
        try Scene.expectNothingLoaded("after the refusal")
    }

    private func indices() throws -> [TPMHandle] {
        try Scene.look { try $0.handles(from: TPMHandle(rawValue: RevocableHalf.indices.lowerBound)) }
            .filter { RevocableHalf.indices.contains($0.rawValue) }
    }

    @Test(.requires(program: "tpm2_changeauth"))
    func `where the owner has a password it can't be had, and nobody is asked`() async throws {
        let keystore = try keystore()
        _ = try await Scene.key(keystore)
        #expect(try await keystore.capabilities().sealsRevocably)
        _ = try await tool("tpm2_changeauth", ["-c", "owner", "secret"])
        #expect(try await !keystore.capabilities().sealsRevocably)
        let presence = ScriptedPresence(pins: "123456")
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.sealRevocably(bytes, policy: .pin, for: Scene.prompt, authorizedBy: presence)
        }
        #expect(error?.code == .unsupported)
        #expect(presence.requests.isEmpty)
    }

    @Test(.requires(program: "tpm2_nvreadpublic"))
    func `tpm2-tools see the index, and neither they nor the owner read it`() async throws {
        let secret = try await seal(try keystore())
        let handle = try half(secret).index.handle.description
        let text = try await tool("tpm2_nvreadpublic", [handle])
        #expect(text.output.contains("friendly: authwrite|authread|no_da|written"))
        #expect(text.output.contains("size: 32"))
        #expect(try await tool("tpm2_nvread", [handle, "-C", "o"]).status != 0)
        let byItself = try await tool("tpm2_nvread", [handle, "-C", handle])
        #expect(byItself.status != 0)
        #expect(byItself.output.lowercased().contains("0x9a2"), "TPM_RC_BAD_AUTH: \(byItself.output)")
    }

    @Test func `a new PIN opens it, and it dies all the same`() async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore, .pin)
        let changed = try await keystore.changePIN(
            of: [], secrets: [secret], for: Scene.prompt, authorizedBy: ScriptedPresence(pins: "123456", "654321"))
        let new = try #require(changed.secrets.first)
        #expect(new.isRevocable)
        #expect(try await open(keystore, new, pin: "654321") == bytes)
        try await keystore.revoke(new)
        #expect(await refusal(keystore, secret) == (.invalidated, 0x18b), "the copy with the old PIN is dead as well")
    }

    @Test func `what is said about it must be what its bytes say`() async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore)
        let edited = SealedSecret(
            backend: secret.backend, policy: secret.policy, assurance: secret.assurance, blob: secret.blob)
        #expect(await refusal(keystore, edited).code == .damaged)
        let stored = try JSONDecoder().decode(SealedSecret.self, from: JSONEncoder().encode(secret))
        #expect(stored == secret)
    }

    @Test func `another TPM does not say that it is done`() async throws {
        let keystore = try keystore()
        let secret = try await seal(keystore)
        try await SoftwareTPM.withRunning { tpm in
            let other = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
            _ = try await Scene.key(other)
            let error = await Scene.error { () async throws(KeystoreError) in try await other.revoke(secret) }
            #expect(error?.code == .wrongDevice)
        }
        #expect(try await open(keystore, secret) == bytes)
    }

    /// No half of it, nor the secret, is on the bus.
    @Test func `nothing of it crosses the bus in the clear`() async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        let secret = try await seal(keystore)
        let index = try half(secret).index
        var seen: (sealed: [UInt8], half: [UInt8]) = ([], [])
        #expect(try await open(keystore, secret) == bytes)
        let blob = try TPMKeyBlob(secret.blob)
        let root = try await keystore.root(of: blob, "test")
        seen = try Scene.look { tpm in
            try tpm.withStorageRoot(root) { (parent) throws(TPMError) in
                try tpm.withLoaded(blob.key.privatePart, blob.key.publicArea, under: parent) {
                    (object) throws(TPMError) in
                    try tpm.withSession(.hmac, saltedTo: parent) { (session) throws(TPMError) in
                        let sealed = try tpm.unseal(object, authorizedBy: .continuing(session)) { Array($0) }
                        let value = try RevocableHalf.authValue(SecretBytes(sealed))
                        let half = try tpm.nvRead(index, authorizedBy: .lastUse(of: session, authValue: value))
                        return (sealed, half)
                    }
                }
            }
        }
        #expect(SecretBytes(seen.sealed).exclusiveOr(SecretBytes(seen.half)) == bytes, "the control")
        let clear = bytes.withUnsafeBytes { Array($0) }
        for part in [seen.sealed, seen.half, clear] { #expect(!wire.bytes.contains(part)) }
    }

    private func tool(_ name: String, _ arguments: [String]) async throws -> (status: Int32, output: String) {
        let result = try await run(
            .name(name), arguments: Arguments(arguments + ["-T", try SoftwareTPM.current.tcti]),
            output: .string(limit: 1 << 16), error: .string(limit: 1 << 16))
        guard case .exited(let status) = result.terminationStatus else { return (-1, "") }
        return (status, result.standardOutput + result.standardError)
    }
}
