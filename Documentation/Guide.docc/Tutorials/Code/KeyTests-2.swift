import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

@Test(.softwareTPM) func `a key signs for whoever knows its PIN`() async throws {
    let tpm = try SoftwareTPM.current  // a TPM of its own for each test, gone at its end
    let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())
    let person = ScriptedPresence(pins: "correct horse")
    let prompt = PromptContext(reason: "sign a release")

    let key = try await keystore.createKey(
        KeyRequest(policy: .pin, prompt: prompt), authorizedBy: person)

    #expect(key.assurance.description == "simulated(swtpm)")
    #expect(person.requests.map(\.purpose) == [.new])
}
