import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

@Test(.softwareTPM) func `a key signs with its PIN`() async throws {
    let tpm = try SoftwareTPM.current  // each test has its own TPM
    let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
    let person = ScriptedPresence(pins: "correct horse", "correct horse")
    let prompt = PromptContext(reason: "sign a release")

    let key = try await keystore.createKey(
        KeyRequest(policy: .pin, prompt: prompt), authorizedBy: person)
    let digest = MessageDigest(sha256: "release 1.0".utf8)
    let signature = try await keystore.sign(digest, with: key, for: prompt, authorizedBy: person)

    #expect(key.publicKey.isValid(signature, for: digest))
    #expect(key.assurance.description == "simulated(swtpm)")
    #expect(person.requests.map(\.purpose) == [.new, .current])
}
