import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

@Test(.softwareTPM) func `a key signs for whoever knows its PIN`() async throws {
    let tpm = try SoftwareTPM.current  // a TPM of its own for each test, gone at its end
    let keystore = TPMKeystore(tcti: tpm.tcti, anchors: MemoryTrustAnchors())

    #expect(try await keystore.capabilities().root == .swtpm)
}
