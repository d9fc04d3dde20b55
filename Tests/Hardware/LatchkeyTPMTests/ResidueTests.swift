import FoundationEssentials
import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import TPM2
import Testing

/// Nothing stays in the TPM, whichever way an operation ends.
@Suite(.softwareTPM)
struct ResidueTests {
    @Test func `nothing stays loaded after success, a wrong PIN, a refusal and damage`()
        async throws
    {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        try Scene.expectNothingLoaded("after making a key")
        try await Scene.sign(keystore, key)
        try Scene.expectNothingLoaded("after a signature")
        let wrong = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key, pin: "654321")
        }
        #expect(wrong?.code == .wrongProof)
        #expect(wrong?.underlying?.rawCode == 0x98e)
        #expect(wrong?.attemptsLeft == 2)
        try Scene.expectNothingLoaded("after a wrong PIN")
        let declined = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.sign(
                Scene.digest, with: key, for: Scene.prompt,
                authorizedBy: ScriptedPresence([.decline]))
        }
        #expect(declined?.code == .cancelled)
        try Scene.expectNothingLoaded("after a declined prompt")
        _ = try await keystore.attest(key, challenge: Data(repeating: 1, count: 16))
        try Scene.expectNothingLoaded("after an attestation")
        _ = try await keystore.changePIN(
            of: [key], secrets: [], for: Scene.prompt,
            authorizedBy: ScriptedPresence(pins: "123456", "another"))
        try Scene.expectNothingLoaded("after a change of PIN")
    }

    @Test func `a lockout reports its end and does not prompt`() async throws {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore)
        for left in [2, 1, 0] {
            let error = await Scene.error { () async throws(KeystoreError) in
                try await Scene.sign(keystore, key, pin: "654321")
            }
            #expect(error?.code == .wrongProof)
            #expect(error?.attemptsLeft == left)
        }
        let presence = ScriptedPresence(pins: "123456")
        let error = await Scene.error { () async throws(KeystoreError) in
            _ = try await keystore.sign(
                Scene.digest, with: key, for: Scene.prompt, authorizedBy: presence)
        }
        #expect(error?.code == .lockedOut)
        let until = try #require(error?.lockedOutUntil)
        #expect((900...1000).contains(until.timeIntervalSinceNow))
        #expect(presence.requests.isEmpty)
        try Scene.expectNothingLoaded("in lockout")
    }

    @Test func `a TPM without free memory is a transient error`() async throws {
        let keystore = TPMKeystore(
            tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
        let key = try await Scene.key(keystore, .none)
        try Scene.look { tpm in
            // swtpm keeps loaded objects when a connection ends. Two objects leave one slot, which
            // the parent uses.
            for _ in 0..<2 {
                _ = try tpm.execute(
                    CreatePrimary(
                        try tpm.execute(ReadPublic(.storageRootKey)).publicArea.template, in: .owner
                    ))
            }
        }
        let error = await Scene.error { () async throws(KeystoreError) in
            try await Scene.sign(keystore, key)
        }
        #expect(error?.code == .transient)
        #expect(error?.underlying?.rawCode == 0x902)
        try Scene.look { tpm in
            for handle in try tpm.handles(from: .transientFirst) {
                try tpm.execute(FlushContext(handle))
            }
        }
        try await Scene.sign(keystore, key)
    }
}

extension PublicArea {
    /// The same without a point.
    fileprivate var template: PublicArea {
        var template = self
        template.detail = .ecc(ECCParameters(symmetric: .aes128CFB), ECCPoint(x: [], y: []))
        return template
    }
}
