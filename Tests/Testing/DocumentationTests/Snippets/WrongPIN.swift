import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

@Test(.softwareTPM) func `a wrong PIN is counted`() async throws {
    let keystore = TPMKeystore(tcti: try SoftwareTPM.current.tcti, anchors: MemoryTrustAnchors())
    let person = ScriptedPresence(pins: "correct horse", "another horse")
    let prompt = PromptContext(reason: "sign a release")
    let key = try await keystore.createKey(
        KeyRequest(policy: .pin, prompt: prompt), authorizedBy: person)

    let error = await #expect(throws: KeystoreError.self) {
        try await keystore.sign(
            MessageDigest(sha256: "release 1.0".utf8), with: key, for: prompt, authorizedBy: person)
    }
    #expect(error?.code == .wrongProof)
    #expect(error?.attemptsLeft == 2)  // of three, by which swtpm locks
}
