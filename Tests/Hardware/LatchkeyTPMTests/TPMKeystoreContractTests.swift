import Latchkey
import LatchkeySimulators
import LatchkeyTPM
import LatchkeyTestSupport
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

    /// With a broker, the PIN belongs to the user and its proof can be reused.
    @Test(
        arguments: [
            KeystoreContract.Requirement.reusesProof, .endsReuse, .endsReuseMidway,
            .promptsWhenReuseIsForbidden,
        ],
        [AccessPolicy.pin, .userPresence])
    func `A TPM keystore with a presence broker`(
        _ requirement: KeystoreContract.Requirement, _ policy: AccessPolicy
    ) async throws {
        try await Scene.withBroker { _, keystore, broker in
            let device = KeystoreContract.Device(
                guardedPolicy: policy, broker: PresenceBroker(broker))
            try await KeystoreContract(device: device, open: { keystore }, openOther: { _ in })
                .check(requirement)
        }
    }
}
