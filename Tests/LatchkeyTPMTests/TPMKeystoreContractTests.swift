import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTesting
import Testing

@Suite(.softwareTPM)
struct TPMKeystoreContractTests {
    @Test(arguments: KeystoreContract.Requirement.allCases)
    func `A TPM keystore`(_ requirement: KeystoreContract.Requirement) async throws {
        let tpm = try SoftwareTPM.current
        let anchors = MemoryTrustAnchors()
        let contract = KeystoreContract(
            open: { TPMKeystore(tcti: tpm.tcti, anchors: anchors) },
            openOther: { body in
                try await SoftwareTPM.withRunning { other in
                    try await body(TPMKeystore(tcti: other.tcti, anchors: MemoryTrustAnchors()))
                }
            })
        try await contract.check(requirement)
    }
}
