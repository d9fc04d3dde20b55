import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
import LatchkeyTesting
import TPM2
import Testing

@Suite(.softwareTPM)
struct StorageRootTests {
    @Test func `an existing storage root key is used unchanged`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        _ = try await Scene.key(TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors()))
        let before = try Scene.look { try $0.execute(ReadPublic(.storageRootKey)) }
        let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        #expect(try Scene.look { try $0.execute(ReadPublic(.storageRootKey)) } == before)
        #expect(try Scene.look { try $0.handles(from: .persistentFirst) } == [.storageRootKey])
    }

    @Test func `another program's key at the handle is not changed, and Latchkey's keys work`()
        async throws
    {
        let foreign = try Scene.takeStorageRootHandle()
        let anchors = MemoryTrustAnchors()
        let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: anchors)
        #expect(try await keystore.diagnose().storageRootKey == .foreign)
        let key = try await Scene.key(keystore)
        try await Scene.sign(keystore, key)
        _ = try await keystore.attest(key, challenge: .init(repeating: 1, count: 16))
        try await Scene.sign(
            TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors()), key)
        #expect(try Scene.look { try $0.execute(ReadPublic(.storageRootKey)) } == foreign)
        #expect(try await keystore.diagnose().pin == .same)
        try Scene.expectNothingLoaded("with a transient storage root key")
    }

    @Test(.requires(program: "tpm2_changeauth")) func `an owner password is reported`() async throws
    {
        let tcti = try SoftwareTPM.current.tcti
        try await tool("tpm2_changeauth", "-c", "owner", "a password", tcti: tcti)
        let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
        let presence = ScriptedPresence(pins: "123456")
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.createKey(
                KeyRequest(policy: .pin, prompt: Scene.prompt), authorizedBy: presence)
        }
        #expect(error?.code == .unavailable)
        #expect(error?.underlying?.rawCode == 0x9a2)
        #expect(error?.reason.contains("owner password") == true)
        #expect(presence.requests.isEmpty)
        let diagnosis = try await keystore.diagnose()
        #expect(diagnosis.isOwnerPasswordSet && diagnosis.storageRootKey == .absent)
    }

    @Test(.requires(program: "tpm2_clear"))
    func `after a clear, keys report the wrong device and nothing is created`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        let free = try await Scene.key(keystore, .none)
        try await tool("tpm2_clear", "-c", "platform", tcti: tcti)
        for key in [key, free] {
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key)
            }
            #expect(error?.code == .wrongDevice, "\(String(describing: error))")
        }
        let making = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.createKey(
                KeyRequest(policy: .none, prompt: Scene.prompt), authorizedBy: Scene.nobody)
        }
        #expect(making?.code == .wrongDevice)
        let diagnosis = try await keystore.diagnose()
        #expect(diagnosis.pin == .different)
        #expect(try Scene.look { try $0.handles(from: .persistentFirst) } == [])
        #expect(
            try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) } == [
                .lockoutCounter: 0
            ])
        try Scene.expectNothingLoaded("after a clear")
    }

    @Test func `a diagnosis reports the state and changes nothing`() async throws {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let before = try await keystore.diagnose()
        #expect(before.storageRootKey == .absent && before.pin == .none)
        #expect(
            before.identity.isSimulated && before.identity.manufacturer == "IBM"
                && before.obstacle == nil)
        #expect(
            before.pinStatus
                == PINStatus(
                    attemptsLeft: 3, attemptLimit: 3, isLockedOut: false, recoverySeconds: 1000))
        #expect(!before.isOwnerPasswordSet && before.isLockoutPasswordSet)
        // The rehearsal of a key with a PIN, a signature and a sealed secret leaves nothing.
        #expect(try Scene.look { try $0.handles(from: .persistentFirst) } == [])
        #expect(try Scene.look { try $0.handles(from: TPMHandle(rawValue: 0x0100_0000)) } == [])
        #expect(
            try Scene.look { try $0.properties(from: .lockoutCounter, count: 1) } == [
                .lockoutCounter: 0
            ])
        try Scene.expectNothingLoaded("after a diagnosis")
        #expect(try await keystore.diagnose().pin == .none, "the rehearsal pins nothing")
        _ = try await Scene.key(keystore)
        let after = try await keystore.diagnose()
        #expect(after.storageRootKey == .present && after.pin == .same)
    }

    @Test func `a missing TPM is an error with a next step`() async throws {
        let keystore = TPMKeystore(tcti: "device:/nowhere/tpmrm0", anchors: MemoryTrustAnchors())
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.capabilities()
        }
        #expect(error?.code == .unavailable)
        #expect(error?.reason.contains("/nowhere/tpmrm0") == true)
        #expect(error?.recovery.isEmpty == false)
    }

    @Test func `concurrent keystores on a new TPM create one storage root key`() async throws {
        let tcti = try SoftwareTPM.current.tcti
        let keys = try await withThrowingTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    try await Scene.key(
                        TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors()), .none)
                }
            }
            var keys: [HardwareKey] = []
            for try await key in group { keys.append(key) }
            return keys
        }
        let keystore = TPMKeystore(tcti: tcti, anchors: MemoryTrustAnchors())
        for key in keys { try await Scene.sign(keystore, key) }
        #expect(try Scene.look { try $0.handles(from: .persistentFirst) } == [.storageRootKey])
    }

    private func tool(_ name: String, _ arguments: String..., tcti: String) async throws {
        try await SystemProgram(name, environment: ["TPM2TOOLS_TCTI": tcti]).require(arguments)
    }
}
