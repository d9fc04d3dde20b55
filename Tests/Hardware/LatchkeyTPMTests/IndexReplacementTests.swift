import Latchkey
import LatchkeySimulators
import LatchkeyTestSupport
import LatchkeyTesting
import Synchronization
import Testing

@testable import LatchkeyTPM
@testable import TPM2

/// An index that another user of the TPM replaces while a key is created.
@Suite(.softwareTPM) struct IndexReplacementTests {
    /// Another user of the TPM removes the new index before its first write, and defines it again
    /// with a PIN of their own.
    @Test(arguments: [AccessPolicy.none, .pin])
    func `an index that another user replaced before its first write makes no key`(
        _ policy: AccessPolicy
    ) async throws {
        let wire = Wire()
        let keystore = wire.keystore(try SoftwareTPM.current)
        _ = try await Scene.key(keystore)
        let replaced = Mutex(false)
        wire.interrupt { code, transport in
            guard code == .nvWrite, !replaced.withLock({ $0 }) else { return }
            let tpm = TPM(transport)
            do {
                let handles = try tpm.handles(
                    from: TPMHandle(rawValue: RevocableSecret.indices.lowerBound))
                let handle = try #require(
                    handles.first { RevocableSecret.indices.contains($0.rawValue) })
                let index = try tpm.execute(NVReadPublic(handle))
                try tpm.execute(NVUndefineSpace(index))
                _ = try tpm.execute(
                    NVDefineSpace(
                        index.publicArea,
                        authValue: try #require(
                            "attacker".utf8.withContiguousStorageIfAvailable {
                                AuthValue(UnsafeRawBufferPointer($0))
                            }
                                ?? nil)))
                replaced.withLock { $0 = true }
            } catch {
                Issue.record(error)
            }
        }
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.createRevocableKey(
                KeyRequest(policy: policy, prompt: Scene.prompt),
                authorizedBy: ScriptedPresence(pins: "123456")
            ) { _ in }
        }
        #expect(replaced.withLock { $0 })
        #expect(error?.code == .unavailable, "\(String(describing: error))")
        let left = try Scene.look {
            try $0.handles(from: TPMHandle(rawValue: RevocableSecret.indices.lowerBound))
        }
        #expect(!left.contains { RevocableSecret.indices.contains($0.rawValue) })
        wire.behave()
        let key = try await keystore.createRevocableKey(
            KeyRequest(policy: policy, prompt: Scene.prompt),
            authorizedBy: ScriptedPresence(pins: "123456")
        ) { _ in }
        try await Scene.sign(keystore, key)
        try Scene.expectNothingLoaded("at the end")
    }
}
